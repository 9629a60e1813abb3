"""The state that destinations are given: every flow that has changed, as it is, and nothing twice."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.detect.flows.reading.flow_walk import FlowBlock, FlowWalk
from hopscope.detect.records import FLOW
from hopscope.export.redis import live_state as module
from hopscope.export.redis.live_state import StateFeed


def told(block: FlowBlock) -> dict[int, tuple[int, list[int]]]:
    """Packets and path of each flow of a block by its id."""
    begins = block.ends - np.diff(block.ends, prepend=0)
    return {
        int(flow["flow_id"]): (int(flow["packets"]), block.hops["node_id"][begin:end].tolist())
        for flow, begin, end in zip(block.flows, begins, block.ends, strict=True)
    }


def test_a_walk_gives_what_has_changed(tables: Callable[..., Any], regions: Path) -> None:
    """Over random changes in two shards a reader that keeps what it was given has every live flow as it is,
    with paths beyond the inline hops; flows that did not change are not given again.
    """
    rng = random.Random(4)
    shards = [tables(0), tables(1)]
    walk = FlowWalk(regions)
    assert walk.changed(0, 64).flows.dtype == FLOW
    assert walk.attach()
    truth: dict[int, tuple[int, list[int]]] = {}
    kept: dict[int, tuple[int, list[int]]] = {}
    for turn in range(30):
        touched = set()
        for _ in range(rng.randrange(8)):
            number = rng.randrange(1, 12) << 6 | rng.randrange(4) << 2
            packets, _ = truth.get(number, (0, []))
            length = rng.choice([0, 3, 8, 9, 20]) if number < 384 else 5
            truth[number] = packets + 1, [rng.randrange(9) for _ in range(length)]
            shards[number >> 6 & 1].put(number, packets + 1, turn, truth[number][1])
            touched.add(number)
        found = told(walk.changed(0, 32)) | told(walk.changed(32, 64))
        assert set(found) == touched
        kept |= found
        assert kept == truth
    walk.forget(np.array([next(iter(truth)), 12345], np.uint64))
    assert set(told(walk.changed(0, 64))) == {next(iter(truth))}
    walk.forget()
    assert told(walk.changed(0, 64)) == truth


def test_of_two_workers_the_latest_counts(tables: Callable[..., Any], regions: Path) -> None:
    """A flow that two workers know is given once, as the one with its last packet has it."""
    first, second = tables(0), tables(1)
    first.put(5, 9, 200, [1, 2])
    second.put(5, 4, 100, [3])
    walk = FlowWalk(regions)
    walk.attach()
    assert told(walk.changed(0, 64)) == {5: (9, [1, 2])}
    second.put(5, 6, 300, [4, 5, 6])
    assert told(walk.changed(0, 64)) == {5: (6, [4, 5, 6])}


def parts(state: StateFeed) -> list[FlowBlock]:
    """All flows that are due."""
    found: list[FlowBlock] = []
    while more := list(state.flows()):
        found += more
    return found


def ids(blocks: list[FlowBlock]) -> list[int]:
    """The flows of some blocks."""
    return sorted(number for block in blocks for number in told(block))


def test_state_comes_in_parts_and_again_after_a_restart(
    tables: Callable[..., Any], regions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One period gives every flow once, in parts of bounded size; later periods give changes alone; after
    `restart`, or if a worker made its table again, all are given again.
    """
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(module, "ROWS", 8)
    monkeypatch.setattr(module, "FLOWS", 16)
    table = tables()
    for number in range(1, 200):
        table.put(number, 1, 50, [1, 2, 3])
    state = StateFeed(regions, 10.0, ("flows", "distributions"))
    seen: list[FlowBlock] = []
    counted = 0
    for _ in range(20):
        clock[0] += 0.6
        seen += parts(state)
        counted += state.distributions() is not None
    assert max(map(len, seen)) < 16 + 8 * 12
    assert ids(seen) == [*range(1, 200)]
    assert counted == 2
    table.put(77, 2, 51, [1])
    clock[0] += 12
    assert [told(block) for block in parts(state)] == [{77: (2, [1])}]
    table.put(78, 2, 51, [1])
    state.forget(np.array([80, 12345], np.uint64))
    assert ids(list(state.flows(rest=True))) == [78, 80]
    state.restart()
    assert state.distributions() == []
    clock[0] += 12
    assert ids(parts(state)) == [*range(1, 200)]
    tables().put(5, 1, 50, [1])
    clock[0] += 12
    parts(state)
    clock[0] += 12
    assert ids(parts(state)) in ([], [5])


def test_contents(tables: Callable[..., Any], regions: Path) -> None:
    """Only what is asked for."""
    tables().put(5, 1, 50, [1])
    assert list(StateFeed(regions, 10.0, ("distributions",)).flows(rest=True)) == []
    state = StateFeed(regions, 10.0, ("flows",))
    assert ids(list(state.flows(rest=True))) == [5]
    assert state.distributions(rest=True) is None
