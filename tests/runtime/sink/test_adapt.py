"""What a sink does beside detection: it looks whether the destinations keep up."""

from __future__ import annotations

from pathlib import Path

from hopscope.export.counters import Place, open_counters
from hopscope.runtime.sink.adapt import Lag


def test_destinations_that_are_slow_are_seen(tmp_path: Path) -> None:
    """Events lost in front of a destination that works are a lag, once; those of one that is gone, and of one
    that reads history, are none.
    """
    (tmp_path / "regions").mkdir()
    lag = Lag(tmp_path)
    assert not lag.look()
    rows = open_counters(tmp_path, [Place("webhook", "http://a"), Place("redis", "redis://b")])[
        "destinations"
    ]
    rows["ok"] = 1
    found = []
    for at, name, ok in (
        (1, "queue_full_total", 1),
        (1, "ring_lost_total", 1),
        (1, "sent_total", 1),
        (1, "queue_full_total", 0),
        (0, "queue_full_total", 1),
    ):
        rows["ok"][1] = ok
        rows[name][at] += 5
        found.append(lag.look())
    assert found == [True, True, False, False, False]
