"""Counters are bound to the object that knows their value."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from hopscope.base.counter import Counter, Sources, family

OWNER = SimpleNamespace(
    table=SimpleNamespace(late=3),
    socket=SimpleNamespace(counts=lambda: {"denied": 4}),
    refused=np.array([5, 6]),
    up=True,
    redis=None,
)


@pytest.mark.parametrize(
    ("path", "value"),
    [("table.late", 3), ("socket.counts.denied", 4), ("refused.1", 6), ("up", 1), ("redis.counts.up", None)],
)
def test_a_path_leads_to_a_value(path: str, value: int | None) -> None:
    """Attributes, methods, mappings, indices; what does not exist has no value."""
    expected = {} if value is None else {0: value}
    assert Sources([Counter("any_total", "", of=path)]).read(OWNER) == expected


@pytest.mark.parametrize("path", ["tables.late", "table.later", "socket.counts.dropped", "refused.2"])
def test_a_wrong_path_is_an_error(path: str) -> None:
    """A counter whose source was renamed does not stay at zero."""
    with pytest.raises((AttributeError, KeyError, IndexError)):
        Sources([Counter("any_total", "", of=path)]).read(OWNER)


def test_all_bound_counters_are_read() -> None:
    """Counters without a source are left to the code that counts them; a missing part has no counters."""
    counters = (
        Counter("late_total", "", of="table.late"),
        Counter("events_total", ""),
        Counter("redis_total", "", of="redis.total"),
        *family("refused_total", "", "reason", {"bad_length": 0, "cut": 1}, of="refused.{}"),
        *family("socket_total", "", "by", ("denied",), of="socket.counts.{}"),
        Counter("again_total", "", of="table.late"),
    )
    assert Sources(counters).read(OWNER) == {0: 3, 3: 5, 4: 6, 5: 4, 6: 3}
