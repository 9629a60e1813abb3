"""Full tables are in the log: at once, then at a bounded rate."""

from __future__ import annotations

from hopscope.detect.counters import INDEX
from hopscope.labels.counters import LABEL_COUNTERS
from hopscope.present.counter_advice import LABEL_TABLES, TABLES
from hopscope.runtime.pipeline.full_tables import PERIOD_SECONDS, FullTables
from hopscope.runtime.pipeline.shard import Shard
from hopscope.settings.history import HistorySettings

FULL = {"port_table_full_total": ("values", "raise it"), "flow_evictions_total": ("flows", "raise that")}


def test_a_full_table_is_logged_at_a_bounded_rate() -> None:
    """What is known is not repeated; more is one line at once, and the rest one after the period."""
    lines, now = list[str](), [0.0]
    full = FullTables(FULL, lines.append, (5, 0), clock=lambda: now[0])
    full.update((5, 0))
    assert lines == []
    for count in range(6, 1006):
        full.update((count, 0))
    assert lines == ["a table is full: 1 values; raise it, or limit what fills it"]
    full.update((1005, 7))
    assert lines[1:] == ["a table is full: 7 flows; raise that, or limit what fills it"]
    now[0] = PERIOD_SECONDS
    full.update((1005, 7))
    assert lines[2:] == ["a table is full: 999 values; raise it, or limit what fills it"]


def test_a_shard_reports_its_full_tables() -> None:
    """Every counter of a table exists, and the shard's tick reads them."""
    assert TABLES.keys() <= INDEX.keys()
    assert LABEL_TABLES.keys() <= {counter.key for counter in LABEL_COUNTERS.counters}
    lines: list[str] = []
    shard = Shard(HistorySettings(), notify=lines.append)
    for key in TABLES:
        shard.tick()
        shard.count(key, 3)
    shard.tick()
    assert len(lines) == len(TABLES)
    assert all(line.startswith("a table is full: 3 ") for line in lines)
