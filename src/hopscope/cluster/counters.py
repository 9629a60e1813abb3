"""Counters of the cluster process."""

from ..base.counter import Counter, family
from ..memory.counter_region import CounterFile

PARTS = (
    "members",
    "configuration",
    "queries",
    "owners",
    "slots",
    "exchange",
    "moved",
    "drain",
)
"""Parts of the process (`process.Part`)."""

CLUSTER_COUNTERS = CounterFile("cluster.counters", "cluster counters", 1, (
    Counter("cluster_connected", "1 if NATS answers this member.", of="connected", gauge=True),
    Counter("cluster_joined", "1 if this member takes part; 0 if another process has its name.",
            of="joined", gauge=True),
    Counter("cluster_members", "Members that are present.", of="counts.members", gauge=True),
    Counter("cluster_members_missing", "Members that are missing.", of="counts.missing",
            gauge=True),
    Counter("cluster_members_not_ready", "Members that are present but not ready.", of="counts.not_ready",
            gauge=True),
    Counter("cluster_bad_records", "Invalid records of members in NATS, which are not used.",
            of="counts.bad", gauge=True),
    Counter("cluster_configuration_revision", "Revision of the cluster's configuration that this member has "
            "applied; 0: none.", of="counts.revision", gauge=True),
    Counter("cluster_configuration_late", "1 if that revision is not the newest.", of="counts.late",
            gauge=True),
    Counter("cluster_connections_total", "Connections made to NATS.", of="counts.connections"),
    Counter("cluster_connection_failures_total", "Failed attempts to connect; each is repeated.",
            of="counts.unreachable"),
    Counter("cluster_heartbeats_total", "Records of this member that NATS accepted.", of="counts.heartbeats"),
    Counter("cluster_refusals_total", "Records that were not written, since another process has the name.",
            of="counts.refusals"),
    Counter("cluster_queries_total", "Queries of members to this one.", of="counts.queries"),
    Counter("cluster_queries_failed_total", "Members' queries answered with an error.",
            of="counts.queries_failed"),
    Counter("cluster_queries_late_total", "Members' queries not answered before their deadline.",
            of="counts.queries_late"),
    Counter("cluster_queries_bad_total", "Messages on the subject of queries that are not queries.",
            of="counts.queries_bad"),
    Counter("cluster_postcards_sent_total", "Postcards sent to the members that own their flows.",
            of="counts.postcards_sent"),
    Counter("cluster_postcard_bytes_total", "Bytes of the blocks in which postcards were sent.",
            of="counts.postcard_bytes"),
    Counter("cluster_postcards_unsent_total", "Postcards that were not sent: NATS did not take them in "
            "time, or their owner had just left.", of="counts.postcards_unsent"),
    Counter("cluster_postcards_received_total", "Postcards received from other members.",
            of="counts.postcards_received"),
    Counter("cluster_postcards_late_total", "Received postcards that arrived after the detector had passed "
            "their time.", of="counts.postcards_late"),
    Counter("cluster_postcards_missing_total", "Postcards that were sent to this member and did not arrive.",
            of="counts.postcards_missing"),
    Counter("cluster_postcard_blocks_missing_total", "Blocks of postcards, sent to this "
            "member, that did not arrive.",
            of="counts.postcard_blocks_missing"),
    Counter("cluster_postcard_blocks_rejected_total", "Messages that are not a block of postcards, or "
            "arrived twice.", of="counts.postcard_blocks_rejected"),
    Counter("cluster_postcards_unqueued_total", "Postcards that arrived and found no room in the queue to "
            "the detector.", of="counts.postcards_unqueued"),
    *family("cluster_moved_total", "Events written: flows and sources that another member had before.",
            "what", ("flow", "source"), of="counts.moved_{}s"),
    Counter("cluster_moved_reports_total", "Sequence numbers counted as lost here that other members had.",
            of="counts.moved_reports"),
    Counter("cluster_moved_unsent_total", "New flows and sequence spaces that were not announced to other "
            "members: too many in a second, or overwritten before they were read.", of="counts.moved_unsent"),
    Counter("cluster_moved_bytes_total", "Bytes sent to other members about flows and sources.",
            of="counts.moved_bytes"),
    Counter("cluster_moved_rejected_total", "Messages about flows and sources that were bad, or too many.",
            of="counts.moved_rejected"),
    Counter("cluster_moved_unwritten_total", "Events of moved flows that were not written: too many in a "
            "second.", of="counts.moved_unwritten"),
    Counter("cluster_moved_waiting_events", "Events of moved flows and sources in memory that the journal "
            "lacks.", of="counts.moved_waiting", gauge=True),
    Counter("cluster_moved_lost_events_total", "Events of moved flows and sources that history will not "
            "have.", of="counts.moved_lost"),
    *family("cluster_failures_total", "Failed attempts, by part of the process; each is repeated.", "part",
            PARTS, of="failures.{}"),
))  # fmt: skip
"""Counters of the cluster process, in the folder of regions."""
