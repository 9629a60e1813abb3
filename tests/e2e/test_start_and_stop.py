"""A collector starts, shares a port among workers, takes changes, restarts what dies, drains and ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hopscope.base.process.control_client import ControlError, request
from hopscope.capture.udp.listener import UdpSender
from hopscope.detect.counters import INDEX
from hopscope.history.query import History
from hopscope.memory.data_folder import DataFolder
from hopscope.present.collector_state import CollectorState
from hopscope.runtime.pipeline.lost_alarms import end_alarms
from hopscope.wire.encode.encoder import encode_reports
from hopscope.wire.records import Link
from support.processes.collector_process import Collector
from support.servers.service_manager import ServiceManager
from support.waiting import HANG_SECONDS, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.kernel, pytest.mark.timeout(600)]


def kill_five_times(one: Collector, name: str) -> None:
    """Kill a process and the four that are started instead of it."""
    dead: set[int] = set()
    while len(dead) < 5:
        pid = one.status()[name]["pid"]
        if pid and pid not in dead:
            dead.add(pid)
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def test_what_is_in_the_socket_at_the_end_is_taken(
    collector: Callable[..., Any], load: Callable[..., Any]
) -> None:
    """SIGTERM right after the last datagram: every report is in the summary, every event in history."""
    one = collector("--no-serve", "--set", "detect.enabled=false")
    one.start()
    sender = UdpSender("127.0.0.1", one.port)
    sender.send(encode_reports(load().batch(3000), link=Link.UDP_PAYLOAD))
    sender.close()
    assert one.stop(signal.SIGTERM) == 0
    said = one.said()
    assert "received   3,000 reports in 3,000 frames" in said, said
    assert "rejected   0\nlost       0\n" in said, said
    with History(one.data) as history:
        values = history.events(kinds=["value"], limit=None)
        assert len(values) == 3000 * 8  # path, latency, latency and queue of 3 hops
        assert history.flows(limit=None)["packets"].sum() == 3000
    assert "Traceback" not in said
    assert not Path(one.owner["regions"]).exists(), "shared memory was left behind"
    assert not (one.data / "control.sock").exists()


def test_a_signal_to_all_processes_ends_them_in_order(
    collector: Callable[..., Any], load: Callable[..., Any]
) -> None:
    """As systemd and a shell send it. The detector outlives the workers, so it has all that they took: each
    process goes on until the supervisor ends it.
    """
    one = collector("--listen", "udp://127.0.0.1:0?workers=2", "--no-serve")
    one.start()
    status = one.status()
    assert {"worker-0", "worker-1", "detector"} <= status.keys()
    for process in status.values():
        os.kill(process["pid"], signal.SIGTERM)
    sender = UdpSender("127.0.0.1", one.port)
    sender.send(encode_reports(load().batch(3000), link=Link.UDP_PAYLOAD))
    sender.close()
    os.killpg(one.process.pid, signal.SIGTERM)
    assert one.stop() == 0
    said = one.said()
    assert "received   3,000 reports in 3,000 frames" in said, said
    assert "restarting" not in said, said
    with History(one.data) as history:
        assert history.flows(limit=None)["packets"].sum() == 3000


def test_workers_share_sources_and_a_state(collector: Callable[..., Any], load: Callable[..., Any]) -> None:
    """Two workers share a port; each source's sequence numbers reach one of them, so none is missing. All
    report the same switches, and each queue, link and buffer is one: new once, with the samples of both.
    """
    one = collector("--listen", "udp://127.0.0.1:0?workers=2", "--no-serve")
    one.start()
    batch = load().batch(200)
    for last in range(1, 17):
        sender = UdpSender("127.0.0.1", one.port, source=f"127.0.0.{last}")
        sender.send(encode_reports(batch, link=Link.UDP_PAYLOAD))
        sender.close()
    state = CollectorState(one.data, fresh_seconds=0)
    eventually(lambda: state.sources()["received"].sum() == 3200)
    eventually(lambda: len(state.sources()) == 16)
    assert (state.sources()["lost"] == 0).all()
    processes = state.counters().processes
    assert processes.keys() == {"0", "1", "detector"}
    shares = [int(processes[worker][INDEX["reports_total"]]) for worker in ("0", "1")]
    assert sum(shares) == 3200
    assert all(shares), "one of two workers got nothing from sixteen sources"
    assert (state.ports()["samples"] % 16 == 0).all(), "sixteen times the same reports"
    assert one.stop(signal.SIGINT) == 0
    with History(one.data) as history:
        new = history.events(kinds=["new_key"], metrics=["queue_occupancy", "link_utilization"], limit=None)
    keys = {(row["metric"], row["node_id"], row["port"], row["ident"]) for row in new.rows()}
    assert len(keys) == len(new) > 0


def test_limits_change_while_it_runs(
    collector: Callable[..., Any], load: Callable[..., Any], tmp_path: Path
) -> None:
    """Over the control socket: given limits are set, others stay, nonsense changes nothing. systemd gets
    to know when it is ready, reads its settings again, and ends.
    """
    manager = ServiceManager(tmp_path)
    one = collector("--no-serve", environment=manager.environment)
    one.start()
    assert manager.next() == "READY"
    assert request(one.data, {"ping": {}}) == {"ok": True}
    change = {"set_limits": {"general": {"hop_latency": {"raise_above": 10}}}}
    limits = request(one.data, change)["limits"]["general"]
    assert limits["hop_latency"] == {"change": 20_000, "raise_above": 10, "clear_below": None}
    nonsense: dict[str, Any]
    for nonsense in (
        {"set_limits": {"general": {"hop_latency": {"clear_below": 11}}}},
        {"set_limits": {"general": {"hop_latency": {"chnge": 1}}}},
        {"set_limits": {"general": {"jitter": {"change": 1}}}},
        {"set_limits": {"general": {"hop_latency": {"change": -1}}}},
        {"set_limits": {"general": {"hop_latency": {"change": 2**64}}}},
        {"set_limits": {"general": {"hop_latency": 1}}},
        {"set_limits": {"general": [1]}},
        {"fly": {}},
        {"ping": {}, "status": {}},
    ):
        with pytest.raises(ControlError, match=r"^[^\n]+$"):
            request(one.data, nonsense)
    limits = CollectorState(one.data).limits()
    assert limits is not None
    assert limits.limits.general.hop_latency.raise_above == 10
    sender = load()
    sender.port = one.port
    state = CollectorState(one.data, fresh_seconds=0)
    eventually(lambda: state.counters()["events_total.threshold"] > 0)
    mode = (one.data / "control.sock").stat().st_mode & 0o777
    assert mode == 0o600
    one.process.send_signal(signal.SIGHUP)  # the settings are read again
    one.wait_for('"settings read again"')
    limits = CollectorState(one.data).limits()
    assert limits is not None
    assert limits.limits.general.hop_latency.raise_above is None
    assert limits.change is not None
    assert limits.change.author == "SIGHUP"
    assert [manager.next(), manager.next()] == ["RELOADING", "READY"]
    assert one.stop() == 0
    assert manager.next() == "STOPPING"
    manager.close()


def test_a_worker_that_dies_is_restarted_on_its_state(
    collector: Callable[..., Any], load: Callable[..., Any]
) -> None:
    """Its sockets outlive it: what arrives meanwhile is received, and its counters go on."""
    one = collector("--no-serve")
    one.start()
    sender = load(2000)
    sender.port = one.port
    state = CollectorState(one.data, fresh_seconds=0)
    eventually(lambda: state.counters()["reports_total"] > 200)
    os.kill(one.status()["worker-0"]["pid"], signal.SIGKILL)
    eventually(lambda: one.status()["worker-0"]["restarts"] == 1)
    time.sleep(0.5)
    sender.close()
    eventually(lambda: state.counters()["reports_total"] >= sender.sent - 4096)
    assert state.counters()["kernel_drops_total"] == 0
    assert one.status()["worker-0"]["last_error"] == "ended by SIGKILL"
    assert one.stop() == 0


def test_a_helper_that_dies_again_and_again_is_left_stopped(
    collector: Callable[..., Any], load: Callable[..., Any]
) -> None:
    """Five deaths of the archive in a minute: it is left stopped, which is said, and capture goes on."""
    one = collector("--no-serve")
    one.start()
    kill_five_times(one, "archive")
    eventually(lambda: one.status()["archive"]["stopped"])
    sender = load()
    sender.port = one.port
    state = CollectorState(one.data, fresh_seconds=0)
    eventually(lambda: state.counters()["reports_total"] > 0)
    assert not one.status()["archive"]["alive"]
    assert one.stop() == 0
    assert "archive: ended by SIGKILL (5 times in a minute)" in one.said()


def test_children_end_with_a_killed_supervisor(collector: Callable[..., Any]) -> None:
    """No process outlives the supervisor: workers close their journals, and the folder can be used again."""
    one = collector()
    one.start()
    pids = [process["pid"] for process in one.status().values()]
    one.process.kill()
    one.process.wait(HANG_SECONDS)
    eventually(lambda: not any(_runs(pid) for pid in pids))
    one.start()
    assert one.stop() == 0


def test_alarms_of_a_killed_collector_end(collector: Callable[..., Any], load: Callable[..., Any]) -> None:
    """At the next start, also if it ended itself because its worker was killed again and again."""
    limits = "detect.thresholds.hop_latency"
    one = collector("--no-serve", "--set", f"{limits}.raise_above=500000", "--set", f"{limits}.clear_below=1")
    reports = load().batch(1)
    reports.hops["hop_latency"] = 900_000

    def kinds() -> list[str]:
        with History(one.data) as history:
            return [str(kind) for kind in history.events(metrics=["hop_latency"], order="sequence")["kind"]]

    def raised(before: int) -> bool:
        sender.send(encode_reports(reports, link=Link.UDP_PAYLOAD))
        return kinds()[before:].count("raised") == 3

    one.start()
    with closing(UdpSender("127.0.0.1", one.port)) as sender:
        eventually(lambda: raised(0))
    one.kill_all()
    one.start()
    assert "3 alarms ended, because the collector was killed" in one.said()
    before = kinds()
    assert before.count("cleared") == 3
    with closing(UdpSender("127.0.0.1", one.port)) as sender:
        eventually(lambda: raised(len(before)))
    kill_five_times(one, "worker-0")
    assert one.process.wait(HANG_SECONDS) == 2
    assert kinds().count("cleared") == 3
    with DataFolder(one.data) as folder:
        end_alarms(folder, queue_by_port=True)
    assert kinds()[len(before) :].count("cleared") == 3


def test_a_stop_while_kernels_compile_is_quick(collector: Callable[..., Any], tmp_path: Path) -> None:
    """The first start compiles for a while; Ctrl-C does not wait for it."""
    one = collector("--no-serve", environment={"HOPSCOPE_KERNEL_CACHE": str(tmp_path / "cold")})
    one.launch()
    one.wait_for("compiling the kernels")
    one.process.send_signal(signal.SIGINT)
    assert one.process.wait(HANG_SECONDS) == 0
    assert '"collecting"' not in one.said()
    assert "Traceback" not in one.said()


def test_the_ports_are_taken_once(collector: Callable[..., Any]) -> None:
    """While it runs, nobody else gets its port; afterwards it is free. The address is this test's own."""
    pid = os.getpid()
    address = f"127.{100 + (pid >> 16) % 100}.{pid >> 8 & 255}.{pid & 255}"
    one = collector("--no-serve", "--listen", f"udp://{address}:0")
    one.start()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, pytest.raises(OSError, match="in use"):
        probe.bind((address, one.port))
    assert one.stop() == 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind((address, one.port))


def _runs(pid: int) -> bool:
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return state.stdout.strip()[:1] not in ("", "Z")


def test_an_interrupt_while_it_starts_is_quiet(collector: Callable[..., Any]) -> None:
    """Ctrl-C reaches every process of a terminal, also those that still import: none complains."""
    one = collector()
    one.launch()
    eventually(lambda: (one.data / "owner.json").exists())
    time.sleep(0.1)
    os.killpg(one.process.pid, signal.SIGINT)
    assert one.process.wait(HANG_SECONDS) in (0, 130)
    assert "Traceback" not in one.said()
