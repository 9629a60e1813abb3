"""Counters of the process that writes events into the lake."""

from ..base.counter import Counter
from ..memory.counter_region import CounterFile

LAKE_COUNTERS = CounterFile("lake.counters", "lake counters", 1, (
    Counter("lake_connected", "1 if this member can write its events into the lake.", of="connected",
            gauge=True),
    Counter("lake_waiting_events", "Events of local history that are not in the lake yet; they would be "
            "lost with the disk.", of="waiting", gauge=True),
    Counter("lake_waiting_seconds", "Age of the oldest event that is not in the lake yet.",
            of="waiting_seconds", gauge=True),
    Counter("lake_events_total", "Events committed to the lake.", of="counts.events"),
    Counter("lake_commits_total", "Commits of events to the lake.", of="counts.commits"),
    Counter("lake_failures_total", "Failed attempts to reach the lake or to commit; each is repeated.",
            of="counts.failures"),
    Counter("lake_connections_total", "Connections made to the lake.", of="counts.connections"),
    Counter("lake_lost_events_total", "Events that will never be in the lake, because local history had "
            "lost them before they were committed.", of="counts.lost"),
    Counter("lake_refilled_events_total", "Events written again because the lake had lost them.",
            of="counts.refilled"),
    Counter("lake_maintenance_rounds_total", "Rounds of maintenance by this member.",
            of="counts.rounds"),
    Counter("lake_maintenance_failures_total", "Rounds of maintenance that failed; each is repeated.",
            of="counts.round_failures"),
    Counter("lake_merged_files_total", "Files of the lake that this member merged into larger ones.",
            of="counts.merged"),
    Counter("lake_expired_events_total", "Events of the lake that this member deleted because of their age.",
            of="counts.expired"),
))  # fmt: skip
"""Counters of the process that writes events into the lake; the file is in the folder of regions."""
