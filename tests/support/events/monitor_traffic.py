"""Traffic for tests of monitors, and the truth about it by loops over single observations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from hopscope.direct.monitors.monitor import Monitor
from hopscope.direct.monitors.run import MonitorRun, start
from hopscope.fabric.faults import make_fault
from hopscope.fabric.queueing import LinkModel
from hopscope.fabric.tcp import TcpModel, TcpSimulation
from hopscope.fabric.topology import FatTree
from hopscope.wire.observation import OBSERVATION
from hopscope.wire.records import Records

TREE = FatTree(4)
SWITCHES = np.arange(1, len(TREE.switches) + 1)


@cache
def lossy() -> TcpSimulation:
    """TCP with full queues and two ports that lose 20 %: about 60,000 observations."""
    nodes = ("agg-1-0", "agg-2-1")
    faults = tuple(make_fault(TREE, "lossy-port", 0.0, node, 1, 10.0, loss=0.2) for node in nodes)
    model = TcpModel(connections=150, within_s=0.004, max_bytes=100_000, burst_bytes=30_000, pause_s=0.004)
    simulation = TcpSimulation(TREE, model, LinkModel(buffer_bytes=20_000), faults, 11)
    simulation.run()
    return simulation


@cache
def seen() -> Records:
    """What its switches see, in order of time."""
    return lossy().observations()


def fed(monitor: Monitor, observations: Records, batches: int = 1, expected: int = 1 << 14) -> MonitorRun:
    """The monitor after all observations, cut at random into so many batches, and flushed."""
    running = start(monitor, expected)
    cuts = np.sort(np.random.default_rng(batches).integers(0, len(observations), batches - 1))
    for part in np.split(observations, cuts):
        running.take(part)
    running.flush()
    return running


def flows_of(observations: Records) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """Every flow once, uint8 [flows, 13]."""
    return np.unique(observations["flow"], axis=0)


def ways(observations: Records) -> dict[int, list[int]]:
    """Switches of every packet by its id, in order of hops, those that dropped it left out."""
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for packet, hop, switch in columns(
        observations[observations["drop_reason"] == 0], "packet", "hop", "switch"
    ):
        found[packet].append((hop, switch))
    return {packet: [switch for _, switch in sorted(hops)] for packet, hops in found.items()}


def columns(observations: Records, *names: str) -> Iterator[tuple[Any, ...]]:
    """Some fields of every observation; flows are bytes. Records of NumPy take ten times as long."""
    return zip(*(_values(observations[name]) for name in names), strict=True)


def _values(column: npt.NDArray[Any]) -> list[Any]:
    if column.ndim == 1:
        return list(column.tolist())
    raw, width = column.tobytes(), column.shape[1]
    return [raw[at : at + width] for at in range(0, len(raw), width)]


def observation(**fields: object) -> Records:
    """One observation."""
    made = np.zeros(1, OBSERVATION)
    for name, value in fields.items():
        made[name] = value
    return made
