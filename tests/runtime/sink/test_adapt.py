"""What a sink does beside detection: it looks whether the destinations keep up."""

from __future__ import annotations

from pathlib import Path

from hopscope.export.counters import DestinationLabel, open_counters
from hopscope.runtime.sink.adapt import Lag


def test_destinations_that_are_slow_are_seen(tmp_path: Path) -> None:
    """Events that a destination that works did not get in time are a lag, once; those of one that is gone,
    none.
    """
    (tmp_path / "regions").mkdir()
    lag = Lag(tmp_path)
    assert not lag.look()
    rows = open_counters(
        tmp_path, [DestinationLabel("webhook", "http://a", "a"), DestinationLabel("kafka", "b", "b")]
    )["destinations"]
    rows["ok"] = 1
    found = []
    for at, name, ok in (
        (1, "expired_total", 1),
        (0, "expired_total", 1),
        (1, "sent_total", 1),
        (1, "expired_total", 0),
        (1, "failed_total", 1),
    ):
        rows["ok"][1] = ok
        rows[name][at] += 5
        found.append(lag.look())
    assert found == [True, True, False, False, False]
