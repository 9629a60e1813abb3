"""Events as Arrow batches: what DuckDB reads from them."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import duckdb
import numpy as np
import pytest

from hopscope.detect.records import EVENT, NO_PORT, Kind, Metric
from hopscope.history.columns import COLUMNS, connect, register
from hopscope.history.files import arrow_stream
from hopscope.history.files.arrow_stream import Column, ColumnStream
from hopscope.history.files.event_batches import columns_of
from support.events.event_make import Events

MAPPED = 0xFFFF << 32


def rows(batches: list[Events]) -> list[tuple[object, ...]]:
    """What DuckDB reads, with the types of segments."""
    stream = ColumnStream(columns_of(np.empty(0, EVENT)), map(columns_of, batches))
    with connect(2**28, threads=1) as connection:
        connection.register("fresh", stream.capsule)
        found = connection.execute("FROM fresh")
        assert tuple((name, str(kind)) for name, kind, *_ in found.description) == COLUMNS
        return found.fetchall()


def test_batches_are_what_sql_makes_of_records(make_events: Callable[..., Events]) -> None:
    """Every column, in batches whose addresses differ, also of kinds, metrics and reasons without a name."""
    events = make_events(3000, seed=9)
    events["kind"][::7] = np.arange(len(events[::7])) % 256
    events["metric"][::11] = np.arange(len(events[::11])) % 256
    events["reason"] = np.arange(len(events)) % 256
    events["kind"][1::3] = Kind.CLEARED
    with connect(2**28, threads=1) as connection:
        expected = connection.execute(f"{register(connection, 'r', events)} ORDER BY value").fetchall()
    assert rows([events[:1], events[1:900], events[900:], events[:0]]) == expected


def test_texts_and_paths() -> None:
    """Written by hand: the shortest and longest addresses, none, and paths with and without nodes."""
    events = np.zeros(5, EVENT)
    events["port"] = NO_PORT
    events["src_lo"] = [MAPPED, MAPPED | 0xFFFFFFFF, 0, 1, 0xFFFFFFFFFFFFFFFF]
    events["src_hi"][4] = 0xFFFFFFFFFFFFFFFF
    events["dst_lo"] = [MAPPED | 0x0A000164] * 4 + [0]
    events["metric"] = [Metric.FLOW_PATH, Metric.FLOW_PATH, 0, 0, Metric.FLOW_PATH]
    events["kind"] = Kind.CLEARED
    events["hop_count"], events["hop"] = [2, 20, 3, 3, 1], [0, 8, 0, 0, 5]
    events["path"] = np.arange(40).reshape(5, 8)
    at = {name: number for number, (name, _) in enumerate(COLUMNS)}
    found = rows([events])
    longest = ":".join(["ffff"] * 8)
    assert [row[at["src"]] for row in found] == ["0.0.0.0", "255.255.255.255", None, "::1", longest]
    assert [row[at["dst"]] for row in found] == ["10.0.1.100"] * 4 + [None]
    assert [row[at["path"]] for row in found] == [[0, 1], list(range(8, 16)), None, None, []]
    assert [row[at["metric"]] for row in found] == ["flow_path", "flow_path", None, None, "flow_path"]


def test_a_batch_that_cannot_be_made(make_events: Callable[..., Events]) -> None:
    """The statement fails, the cause is kept, and so is no batch."""
    events = make_events(5000)

    def batches() -> Iterator[list[Column]]:
        yield columns_of(events)
        raise ValueError("no more")

    stream = ColumnStream(columns_of(events[:0]), batches())
    with connect(2**28, threads=1) as connection:
        connection.register("fresh", stream.capsule)
        with pytest.raises(duckdb.Error, match="a batch could not be made"):
            connection.execute("SELECT count(value) FROM fresh").fetchall()
    assert str(stream.error) == "no more"
    gc.collect()
    assert not arrow_stream._held


def test_queries_print_no_progress() -> None:
    """DuckDB would print it after 2 seconds, also into a file."""
    with connect(2**28, threads=1) as connection:
        found = connection.execute("SELECT current_setting('enable_progress_bar')").fetchone()
    assert found == (False,)
