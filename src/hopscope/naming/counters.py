"""Counters of the process that asks devices for names and counters."""

from ..base.counter import Counter, family
from ..memory.counter_region import CounterFile

NAMES_COUNTERS = CounterFile("names.counters", "names counters", 2, (
    *family(
        "names_polls_total", "Devices asked for their names, by result.", "result", ("answered", "failed"),
    ),
    *family(
        "names_counter_polls_total", "Devices asked for counters of interfaces, by result.", "result",
        ("answered", "failed"),
    ),
    Counter("names_silent_devices", "Devices that did not answer the last query.", gauge=True),
    Counter(
        "names_changes_total", "Times that names of devices changed; console and exports then start again."
    ),
))  # fmt: skip
