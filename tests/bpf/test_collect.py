"""A collector whose reports end in the kernel, as processes, with real frames."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hopscope.detect.counters import INDEX, attach_counters
from hopscope.history.query import History
from support.network.veth import Namespace
from support.packets.xdp_make import SETTINGS, built, traffic
from support.processes.collector_process import Collector
from support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.kernel, pytest.mark.timeout(900)]
Row = dict[str, str]
PART = 200
"""Frames that are sent at once."""
RING, XDP = (f"{kind}://near?port=32766&promiscuous=yes" for kind in ("ring", "xdp"))
LIMITS = SETTINGS.thresholds.model_dump(exclude_defaults=True)
FLAGS = (
    "--no-serve",
    *(
        word
        for name in ("flow_rows", "ports", "sources")
        for word in ("--set", f"detect.{name}={getattr(SETTINGS, name)}")
    ),
    *(
        word
        for metric, limits in LIMITS.items()
        for name, limit in limits.items()
        for word in ("--set", f"detect.thresholds.{metric}.{name}={limit}")
    ),
)


@pytest.fixture
def space(tool: Callable[..., str]) -> Iterator[Namespace]:
    """A namespace with a veth pair."""
    built(tool)
    made = Namespace(f"hopscope-collect-{os.getpid()}")
    try:
        yield made
    finally:
        made.remove()


def collecting(space: Namespace, data: Path, listen: str) -> Collector:
    """A collector at the near end."""
    made = Collector(data, "--listen", listen, *FLAGS)
    space.inside(made.launch)
    made.wait_for('"collecting"')
    return made


def end(collector: Collector) -> None:
    """Kill all of its processes, if it runs."""
    if collector.process is not None and collector.process.poll() is None:
        collector.kill_all()


def events_of(
    space: Namespace, data: Path, listen: str, frames: list[bytes]
) -> tuple[list[Row], list[Row], int]:
    """History once a collector of these frames has ended gracefully, without times and what depends on its
    secret: events in order, and the records of its flows in any; and how many datagrams ended in the kernel.
    """
    collector = collecting(space, data, listen)
    try:
        counters = attach_counters(data / "regions" / "worker-0.counters")
        with space.raw() as far:
            for number, frame in enumerate(frames, 1):
                far.send(frame)
                if number % PART == 0:  # all are read: the program's tables can follow
                    eventually(lambda number=number: counters[INDEX["frames_total"]] == number)  # type: ignore[misc]
        assert collector.stop() == 0
    finally:
        end(collector)
    with History(data) as history:
        table = history.events(limit=None, order="sequence")
    names = [name for name in table.columns if name not in ("time", "flow_id", "sequence")]
    rows = [{name: str(table[name][row]) for name in names} for row in range(len(table))]
    events = [row for row in rows if row["kind"] != "flow_record"]
    records = [row for row in rows if row["kind"] == "flow_record"]
    for row in records:
        if row["metric"] == "flow_path":
            del row["previous"]  # a time
    return events, sorted(records, key=repr), int(counters[INDEX["xdp_datagrams_total.filtered"]])


def test_events_of_real_frames(space: Namespace, tmp_path: Path) -> None:
    """The events of frames at an interface and the records of their flows, with what the kernel counted, are
    those of the ring; after SIGTERM, the program is gone.
    """
    frames = traffic(seed=9, count=3000)
    events, records, _ = events_of(space, tmp_path / "ring", RING, frames)
    filtered_events, filtered_records, filtered = events_of(space, tmp_path / "xdp", XDP, frames)
    assert filtered > len(frames) // 10
    assert len(events) > 500
    assert len(records) > 100
    assert filtered_events == events
    assert filtered_records == records
    assert "xdp" not in space.ip("link", "show", "near")


def test_an_interface_that_comes_back(space: Namespace, tmp_path: Path) -> None:
    """The log says that it is gone, and that it is back; reports are received there again."""
    collector = collecting(space, tmp_path / "data", XDP)
    try:
        counters = attach_counters(tmp_path / "data" / "regions" / "worker-0.counters")
        space.ip("link", "del", "near")
        collector.wait_for('"interface is gone", "interface": "near"')
        space.pair("near", "far")
        collector.wait_for('"interface is back", "interface": "near"')
        eventually(lambda: "xdp" in space.ip("link", "show", "near"))
        with space.raw() as far:
            far.send(traffic(seed=9, count=1)[0])
        eventually(lambda: counters[INDEX["frames_total"]] == 1)
    finally:
        end(collector)


def test_killed(space: Namespace, tmp_path: Path) -> None:
    """A collector that is killed leaves no program behind."""
    collector = collecting(space, tmp_path / "data", XDP)
    try:
        assert "xdp" in space.ip("link", "show", "near")
    finally:
        end(collector)
    eventually(lambda: "xdp" not in space.ip("link", "show", "near"))
