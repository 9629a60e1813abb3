"""The collector itself over HTTP: processes, health with advice, counters with rates, destinations, disk."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from hopscope.detect.counters import COUNTERS
from hopscope.export.counters import DestinationLabel, open_counters
from hopscope.export.positions import Positions
from hopscope.labels.counters import LABEL_COUNTERS
from hopscope.present.collector_state import CollectorState
from hopscope.serve.models import system as m
from hopscope.serve.system.counters import CounterReadings, meaning
from hopscope.wire.reasons import DropReason, Reason

pytestmark = pytest.mark.e2e


def get(api: Any, folder: Path, *paths: str) -> list[Any]:
    """Answers of one server, one after the other."""

    async def talk() -> list[Any]:
        async with api(folder) as client:
            return [(await _checked(client, path)).json() for path in paths]

    return asyncio.run(talk())


async def _checked(client: httpx.AsyncClient, path: str) -> httpx.Response:
    answer = await client.get(f"/api/v0/{path}")
    assert answer.status_code == 200, answer.text
    return answer


@pytest.fixture
def owner(collector: Any) -> Callable[..., None]:
    """Adds keys to what the supervisor says of itself."""

    def write(**more: Any) -> None:
        path = collector.folder / "owner.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **more}))

    return write


def test_processes_health_and_disk(api: Any, collector: Any, owner: Callable[..., None]) -> None:
    """A running collector: its process with memory from /proc, what must be ready, and the disk's space."""
    owner(
        pid=os.getpid(), started_ns=1_700_000_000_000_000_000,
        listeners=[{"kind": "udp", "url": "udp://127.0.0.1:1", "dialect": "spec", "output": ""}],
        retention={"keep_days": 7.0, "keep_bytes": 10, "keep_free": "50%"},
    )  # fmt: skip
    found = m.System.model_validate(get(api, collector.folder, "system")[0])
    assert found.running
    assert found.started == "2023-11-14T22:13:20.000000000Z"
    (worker,) = found.processes
    assert (worker.name, worker.alive, worker.pid) == ("worker-0", True, 1)
    assert worker.memory_bytes is not None
    assert worker.memory_bytes > 0
    assert {part.name for part in found.components if part.needed} == {
        "supervisor", "worker-0", "regions", "history",
    }  # fmt: skip
    assert found.history is not None
    disk = shutil.disk_usage(collector.folder)
    assert found.history.total_bytes == disk.total
    assert found.history.kept_bytes == disk.total // 2
    assert found.history.oldest is not None
    assert (found.cluster, found.lake, found.destinations) == (None, None, [])


def test_a_stopped_collector_says_how_to_start_one(api: Any, collector: Any) -> None:
    """Without a supervisor there are no processes, and the component says what to do next."""
    collector.server.close()
    found = m.System.model_validate(get(api, collector.folder, "system")[0])
    assert not found.running
    assert not found.ready
    assert found.processes == []
    assert "hopscope collect" in found.components[0].advice


def test_a_destination_that_fails_shows_what_waits(api: Any, collector: Any) -> None:
    """Its problem, its losses by reason, and the events of history that it has not confirmed."""
    rows = open_counters(collector.folder, [DestinationLabel("kafka", "kafka://broker:9092", "bus")])[
        "destinations"
    ]
    rows["ok"], rows["since_ns"], rows["problem"] = 0, 5_000_000_000, b"connection refused"
    rows["failed_total"], rows["sent_total"] = 3, 9
    positions = Positions(collector.folder, "bus")
    (events,) = get(api, collector.folder, "events?limit=1000")
    positions.start(0, len(events["items"]) - 2)
    found = m.System.model_validate(get(api, collector.folder, "system")[0])
    (destination,) = found.destinations
    assert (destination.ok, destination.problem) == (False, "connection refused")
    assert destination.since == "1970-01-01T00:00:05.000000000Z"
    assert destination.lost == {"failed": 3}
    assert destination.counters["sent_total"] == 9
    assert destination.waiting_events == 2
    part = next(part for part in found.components if part.name == "bus")
    assert part.advice
    assert not part.needed


def test_every_counter_has_its_meaning_and_value(api: Any, collector: Any) -> None:
    """All counters of the workers, in the units of /metrics; labels that are members of enumerations explain
    themselves, and losses say what to do.
    """
    found = m.Counters.model_validate(get(api, collector.folder, "system/counters")[0])
    by_key = {(each.name, *(each.label or {}).values()): each for each in found.items}
    assert len(by_key) == len(COUNTERS)
    assert by_key[("hopscope_reports_total",)].value == 3
    assert all(each.help for each in found.items)
    truncated = by_key[("hopscope_rejected_reports_total", "truncated")]
    assert truncated.meaning.startswith("The bytes end before a header")
    assert "--dialect auto" in truncated.advice
    assert by_key[("hopscope_kernel_drops_total",)].advice
    for counter in COUNTERS:
        if counter.name in ("rejected_reports_total", "forward_drops_total", "events_total"):
            assert meaning(counter), counter.key


def test_a_collector_that_is_no_sink(api: Any, collector: Any) -> None:
    """The page of the sink learns that there is none."""
    (found,) = get(api, collector.folder, "sink")
    assert found == {
        "enabled": False, "settings": None, "interfaces": [], "threshold_increase": 0.0, "counters": {},
    }  # fmt: skip


def test_a_sink_says_what_it_forwarded_and_why_not(
    api: Any, collector: Any, owner: Callable[..., None]
) -> None:
    """Counters by what they are about, reasons with meaning; the loopback interface has those of the kernel,
    one that is missing has none.
    """
    owner(
        listeners=[{"kind": "mirror", "url": "mirror://lo", "dialect": "spec", "output": "gone0"}],
        sink={
            "enabled": True, "strip": True, "forwarding": "auto", "bypass": True, "quota": 0,
            "journal_events": 1, "journal_flows": 2,
        },
    )  # fmt: skip
    found = m.Sink.model_validate(get(api, collector.folder, "sink")[0])
    assert found.enabled
    assert {about: bool(counters) for about, counters in found.counters.items()} == dict.fromkeys(
        ("in", "int", "out", "kept", "dropped", "kernel", "events", "throttled", "report"), True
    )
    drops = {(each.label or {})["reason"]: each for each in found.counters["dropped"]}
    assert drops.keys() == {reason.label for reason in DropReason if reason}
    assert (
        drops["down"].meaning
        == "The output interface was down or gone, or had not taken the frame when the sink ended."
    )
    kept = [(each.label or {}).get("reason") for each in found.counters["kept"]]
    assert {reason.label for reason in Reason if reason} <= set(kept)
    stripped = [each.name.removeprefix("hopscope_") for each in found.counters["out"]]
    assert stripped == ["forwarded_frames_total", "stripped_packets_total", "unverified_packets_total"]
    loopback, gone = found.interfaces
    assert (loopback.name, loopback.role, loopback.ready) == ("lo", "in", True)
    assert int(loopback.statistics["rx_packets"]) >= 0
    assert (gone.name, gone.role, gone.ready, gone.statistics) == ("gone0", "out", False, {})


def test_both_interfaces_of_a_wire_receive_and_send(
    api: Any, collector: Any, owner: Callable[..., None]
) -> None:
    """With `--pair` each interface is the input of one direction and the output of the other."""
    owner(
        listeners=[
            {"kind": "mirror", "url": f"mirror://{one}?workers=2", "dialect": "spec", "output": other}
            for one, other in (("gone0", "gone1"), ("gone1", "gone0"))
        ],
        sink={
            "enabled": True, "strip": True, "forwarding": "auto", "bypass": True, "quota": 0,
            "journal_events": 1, "journal_flows": 2,
        },
    )  # fmt: skip
    found = get(api, collector.folder, "sink")[0]["interfaces"]
    assert [(each["name"], each["role"]) for each in found] == [("gone0", "both"), ("gone1", "both")]


def test_rates_of_a_counter_file(tmp_path: Path) -> None:
    """A process that counted 10 in 2 s has 5 per second."""
    (tmp_path / "regions").mkdir()
    counters = LABEL_COUNTERS.open(tmp_path / "regions")
    book = CounterReadings(CollectorState(tmp_path), tmp_path / "direct")

    def rate() -> float:
        return next(each.per_second for each in book.counts() if each.counter.key == "labels_total")

    assert rate() == 0
    at, values = book._readings["labels"][0]
    book._readings["labels"][0] = (at - 100.0, values)
    counters.add("labels_total", 500)
    assert np.isclose(rate(), 5, rtol=0.1)


def test_a_gauge_that_falls_has_no_rate(tmp_path: Path) -> None:
    """Fewer events wait than before: a process that restarted would have counted those left."""
    (tmp_path / "regions").mkdir()
    counters = LABEL_COUNTERS.open(tmp_path / "regions")
    counters.put("label_waiting_events", 900)
    book = CounterReadings(CollectorState(tmp_path), tmp_path / "direct")
    assert list(book.counts())
    at, values = book._readings["labels"][0]
    book._readings["labels"][0] = (at - 100.0, values)
    counters.put("label_waiting_events", 500)
    assert {each.per_second for each in book.counts() if each.counter.key == "label_waiting_events"} == {0}
