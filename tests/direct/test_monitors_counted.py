"""Monitors that count in memory, and all monitors together by name."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from hopscope.capture.pcap.reader import read
from hopscope.direct.monitors.frames import observe_frames
from hopscope.direct.monitors.registry import MONITORS, MonitorError
from hopscope.direct.monitors.run import run_monitors, start
from hopscope.direct.monitors.systems.host_counters import HostCounters, HostValues
from hopscope.direct.monitors.systems.path_tracing import PathTracing
from hopscope.direct.monitors.systems.timeouts import PROTOCOL
from hopscope.direct.monitors.systems.turboflow import TurboFlow
from hopscope.direct.primitive import attach, named
from hopscope.direct.primitives.key_increment import bound
from hopscope.direct.transport import MemoryTransport
from hopscope.wire.dta.encode import encode_dta
from hopscope.wire.dta.forms import Form
from hopscope.wire.dta.parser import DtaParser
from hopscope.wire.observation import OBSERVATION, TCP
from hopscope.wire.reasons import DtaReason
from support.events.monitor_traffic import columns, fed, flows_of, seen

pytestmark = pytest.mark.kernel
BATCHES = [1, 23]


def sent() -> tuple[Counter[bytes], Counter[bytes]]:
    """Bytes by source address and packets by flow, where they enter the network."""
    by_host: Counter[bytes] = Counter()
    by_flow: Counter[bytes] = Counter()
    for flow, size in columns(seen()[seen()["hop"] == 1], "flow", "size"):
        by_host[flow[:4]] += size
        by_flow[flow] += 1
    return by_host, by_flow


def keys_of(counts: Counter[bytes]) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    return np.frombuffer(b"".join(counts), np.uint8).reshape(len(counts), -1)


@pytest.mark.parametrize("batches", BATCHES)
def test_host_counters(batches: int) -> None:
    """Bytes of every host, added up in memory or written whole."""
    hosts, _ = sent()
    running = fed(added := HostCounters(), seen(), batches)
    assert added.query(running.store, keys_of(hosts)).tolist() == list(hosts.values())
    running = fed(whole := HostValues(), seen(), batches)
    told = whole.query(running.store, keys_of(hosts))
    assert told.found.all()
    assert told.values.tolist() == list(hosts.values())
    assert len(hosts) == 16
    assert not whole.query(running.store, keys_of(hosts) ^ np.uint8(1)).found.any()


@pytest.mark.parametrize("slots", [1, 8, 4096])
@pytest.mark.parametrize("batches", BATCHES)
def test_turboflow(slots: int, batches: int) -> None:
    """Packets of every flow, however small the switches' tables are; small ones evict more."""
    _, flows = sent()
    running = fed(monitor := TurboFlow(slots), seen(), batches)
    assert monitor.query(running.store, keys_of(flows)).tolist() == list(flows.values())
    assert not monitor.query(running.store, keys_of(flows) ^ np.uint8(255)).any()
    if slots == 4096:
        assert running.reports < 1.1 * len(flows)
    if slots == 1:
        assert running.reports > 3 * len(flows)


def test_turboflow_keeps_what_is_not_evicted() -> None:
    """Before the tables are emptied, memory and tables together have every packet."""
    _, flows = sent()
    monitor = TurboFlow(slots=8)
    evicted = monitor.observe(seen())
    counted = int(evicted.records["counter"].sum())
    held = int(monitor.flush().records["counter"].sum())
    assert counted + held == sum(flows.values())
    assert held > 0
    assert not len(monitor.flush())


def test_too_few_counters_count_too_much_and_never_too_little() -> None:
    """An overloaded store: every count is at least the truth, and nearly all within the bound of theory."""
    _, flows = sent()
    running = fed(monitor := TurboFlow(), seen(), expected=16)
    told = monitor.query(running.store, keys_of(flows)).astype(np.int64)
    over = told - np.array(list(flows.values()))
    assert (over >= 0).all()
    assert (over > 0).any()
    most, risk = bound(running.store)
    wrong = (over > most).mean()
    assert wrong <= risk + 4 * (risk * (1 - risk) / len(over)) ** 0.5


def test_all_monitors_run_by_name(tmp_path: Path) -> None:
    """Every monitor reports something; its store is of its primitive, and a file that explains itself."""
    running = run_monitors(seen(), list(MONITORS), expected=1024, folder=tmp_path)
    assert list(running) == list(MONITORS)
    for name, one in running.items():
        kind = MONITORS[name]
        assert one.monitor.name == name == kind.name
        assert one.reports > 0, name
        assert kind.description
        assert kind.source
        assert one.store.layout.opcode == named(kind.primitive).opcode
        with attach(tmp_path / f"{name}.region").region as region:
            assert region["memory"].any(), name


def test_monitors_that_are_made_and_batches() -> None:
    """Monitors with settings of their own, over batches; the answer is that of all at once."""
    halves = np.array_split(seen(), 2)
    running = run_monitors(halves, {"short": PathTracing(hops=3), "long": PathTracing()})
    assert list(running) == ["short", "long"]
    flows = flows_of(seen())
    long, short = (run.monitor.query(run.store, flows) for run in (running["long"], running["short"]))  # type: ignore[attr-defined]
    both = long.found & short.found
    assert both.sum() > 200
    assert (long.values[both, :3] == short.values[both]).all()


def test_an_unknown_name_is_rejected() -> None:
    """The message says which monitors there are."""
    with pytest.raises(MonitorError, match="unknown monitor 'intt'; known: int-path-tracing, "):
        run_monitors(seen(), ["intt"])


@pytest.mark.parametrize("name", list(MONITORS))
def test_nothing_to_see_is_nothing_to_report(name: str) -> None:
    """No observations, and observations in which everything is 0, break nothing."""
    running = run_monitors([np.zeros(0, OBSERVATION), np.zeros(100, OBSERVATION)], [name], expected=64)
    refused = running[name].translator.rejected
    refused[[DtaReason.NONE, DtaReason.BAD_HOP]] = 0  # a postcard of hop 0 is none
    assert not refused.any()


def test_the_guide_lists_all_monitors() -> None:
    """The table of docs/guides/monitors.md says of every monitor what its class says, in the same order."""
    page = (Path(__file__).parents[2] / "docs" / "guides" / "monitors.md").read_text()
    rows = [
        f"| `{name}` | {kind.primitive} | {kind.description} | {kind.sizes} | {kind.source} |"
        for name, kind in MONITORS.items()
    ]
    assert "\n".join(["|---|---|---|---|---|", *rows, ""]) in page


@pytest.mark.parametrize("name", list(MONITORS))
def test_any_observation_is_taken(name: str) -> None:
    """Random bytes as observations: reports are made or rejected, nothing fails, no verb is out of bounds."""
    rng = np.random.default_rng(8)
    strange = np.frombuffer(rng.bytes(2000 * OBSERVATION.itemsize), OBSERVATION).copy()
    strange["hop"][::2] = 1
    strange["flow"][::3, PROTOCOL] = TCP
    (one,) = run_monitors(np.array_split(strange, 3), [name], expected=64).values()
    transport = one.translator.fanout.transports[0]
    assert isinstance(transport, MemoryTransport)
    assert not transport.out_of_bounds


@pytest.mark.parametrize("name", list(MONITORS))
def test_reports_are_the_same_over_the_wire(name: str) -> None:
    """As DTA packets of the form with lengths, read again, they give a store that is equal byte for byte."""
    kind = MONITORS[name]
    direct, wired = start(kind(), 1024), start(kind(), 1024)
    parser = DtaParser(Form.SIZED)
    for part in np.array_split(seen(), 3):
        direct.take(part)
        made = wired.monitor.observe(part)
        if len(made):
            batch = encode_dta(made.records, made.arena, Form.SIZED)
            wired.translator.translate(parser.parse(batch), batch.arena)
    for one in (direct, wired):
        one.translator.flush()
    assert direct.translator.rejected.tolist() == wired.translator.rejected.tolist()
    assert direct.store.memory.any()
    assert (direct.store.memory == wired.store.memory).all()


@pytest.mark.shared
def test_a_capture_is_monitored(shared: Path) -> None:
    """Packets of a capture that this project did not make: bytes by host and packets by flow are right."""
    parts = [observe_frames(batch) for batch in read(shared / "traffic" / "tcpreplay_test.pcap")]
    every = np.concatenate(parts)
    running = run_monitors(parts, [*MONITORS], expected=1024)
    hosts: Counter[bytes] = Counter()
    flows: Counter[bytes] = Counter()
    for o in every:
        hosts[o["flow"].tobytes()[:4]] += int(o["size"])
        flows[o["flow"].tobytes()] += 1
    counted, turbo = running["marple-host-counters"], running["turboflow"]
    assert isinstance(counted.monitor, HostCounters)
    assert counted.monitor.query(counted.store, keys_of(hosts)).tolist() == list(hosts.values())
    assert isinstance(turbo.monitor, TurboFlow)
    assert turbo.monitor.query(turbo.store, keys_of(flows)).tolist() == list(flows.values())
    traced = running["int-path-tracing"]
    assert isinstance(traced.monitor, PathTracing)
    told = traced.monitor.query(traced.store, keys_of(flows))
    assert told.found.all()
    assert (told.values == [1, 0, 0, 0, 0]).all()
    assert len(every) > 100
