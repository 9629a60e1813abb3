"""Counters of the process that reaches switches."""

from ..base.counter import Counter, family
from ..memory.counter_region import CounterFile

STATES = ("connecting", "up", "standby", "down")
"""States of a switch: `standby`: another controller changes it; `down`: the last attempt failed."""

CONTROL_COUNTERS = CounterFile("control.counters", "control counters", 1, (
    *family(
        "control_switches", "Switches that the controller reaches, by state.", "state", STATES,
        of="states.{}", gauge=True,
    ),
    Counter(
        "control_switches_in_sync", "Switches that have the wanted state.", of="in_sync", gauge=True
    ),
    Counter("control_connections_total", "Connections made to switches.", of="counts.connections"),
    Counter(
        "control_failures_total", "Failed attempts to reach or change a switch; each is repeated.",
        of="counts.failures",
    ),
    Counter("control_reads_total", "States read from switches.", of="counts.reads"),
    Counter(
        "control_drifts_total", "Reads that found a switch in another state than the wanted one.",
        of="counts.drifts",
    ),
    Counter(
        "control_changes_total", "Parts of a switch's state that were changed: watch list, tracked flows, "
        "label function, Reg2.", of="counts.changes",
    ),
))  # fmt: skip
"""Of the process that reaches switches, in the folder of regions."""
