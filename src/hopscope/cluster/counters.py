"""Counters of the process that takes part in a cluster."""

from __future__ import annotations

from ..base.counter import Counter, family
from ..memory.counter_region import CounterFile

PARTS = (
    "members",
    "configuration",
    "questions",
    "owners",
    "stream",
    "exchange",
    "moved",
    "drain",
)
"""Parts of the process (`process.Part`)."""

CLUSTER_COUNTERS = CounterFile("cluster.counters", "cluster counters", 1, (
    Counter("cluster_connected", "1 if NATS answers this member.", of="connected", gauge=True),
    Counter("cluster_joined", "1 if this member takes part; 0 if another process has its name.",
            of="joined", gauge=True),
    Counter("cluster_members", "Members that are there.", of="counts.members", gauge=True),
    Counter("cluster_members_missing", "Members that were there and are not.", of="counts.missing",
            gauge=True),
    Counter("cluster_members_not_ready", "Members that are there and not ready.", of="counts.not_ready",
            gauge=True),
    Counter("cluster_bad_records", "Records of members in NATS that are no good, and not used.",
            of="counts.bad", gauge=True),
    Counter("cluster_configuration_revision", "Revision of the cluster's configuration that this member has "
            "applied; 0: none.", of="counts.revision", gauge=True),
    Counter("cluster_configuration_late", "1 if that is not the newest.", of="counts.late", gauge=True),
    Counter("cluster_connections_total", "Connections made to NATS.", of="counts.connections"),
    Counter("cluster_connection_failures_total", "Failed attempts to connect; each is repeated.",
            of="counts.unreachable"),
    Counter("cluster_heartbeats_total", "Records of this member that NATS took.", of="counts.heartbeats"),
    Counter("cluster_refusals_total", "Records that were not written, since another process has the name.",
            of="counts.refusals"),
    Counter("cluster_questions_total", "Questions of members to this one.", of="counts.questions"),
    Counter("cluster_questions_failed_total", "Of these, answered with an error.",
            of="counts.questions_failed"),
    Counter("cluster_questions_late_total", "Of these, not answered before their deadline.",
            of="counts.questions_late"),
    Counter("cluster_questions_bad_total", "Messages on the subject of questions that are none.",
            of="counts.questions_bad"),
    *family("cluster_failures_total", "Failed attempts, by part of the process; each is repeated.", "part",
            PARTS, of="failures"),
))  # fmt: skip
"""Of the process that takes part in a cluster, in the folder of regions."""
