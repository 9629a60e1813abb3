"""A fabric whose switches label real packets: hosts notice nothing, the controller everything."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from hopscope.capture.pcap.reader import read
from hopscope.labels import tracked_state
from hopscope.labels.records import PortCounter
from hopscope.labels.registers import Registers
from hopscope.labels.tracked_state import TrackedReader
from hopscope.testbed import namespaces, state
from hopscope.testbed.fabric import Host, next_ports, prefix
from hopscope.testbed.traffic import Datagrams, iperf, ping, send_datagrams
from support.network.live_fabric import LOSS, NAME, Fabric, fabric, lose, traffic
from support.processes.command import hopscope
from support.waiting import HANG_SECONDS, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
CAPTURED_PORT = 7999
MARK = b"all that came before is captured"
TRACKED = "host-0-1:host-1-0:10"


@pytest.fixture(scope="module")
def tools(tool: Callable[..., str]) -> None:
    """What these tests need."""
    for name in ("ip", "ping", "iperf3", "tcpdump", "tshark"):
        tool(name)
    if os.geteuid():
        pytest.skip("network namespaces need root")


@pytest.fixture(scope="module")
def live(tools: None) -> Iterator[Fabric]:
    """One fabric for all tests, at the paper's setting: T = 50 ms, telemetry interval 100 ms."""
    made = fabric("up", "--http-port", "0", "--interval", "50ms", "--telemetry", "100ms", "--track", TRACKED)
    try:
        if made.returncode and os.environ.get("HOPSCOPE_REQUIRE_TOOLS") != "1" and "netns" in made.stderr:
            pytest.skip(f"no network namespaces with veth pairs here: {made.stderr}")
        assert made.returncode == 0, made.stderr
        assert f"hopscope fabric down --name {NAME}" in made.stdout
        assert (state.folder_of(NAME) / state.SETTINGS_FILE).stat().st_mode & 0o777 == 0o600
        found = Fabric()
        yield found
    finally:
        fabric("down")


@contextmanager
def captured(interface: str, file: Path, what: str = "", namespace: str = "") -> Iterator[None]:
    """tcpdump while something is done, which waits for what it expects in the file."""
    inside = ("ip", "netns", "exec", namespace) if namespace else ()
    words = [*inside, "tcpdump", "-i", interface, "-U", "-Z", "root", "-B", "16384", "--immediate-mode"]
    with subprocess.Popen(
        [*words, "-w", str(file), *what.split()], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        while "listening on" not in (line := process.stderr.readline()):
            assert line, "tcpdump has ended"
        try:
            yield
        finally:
            process.send_signal(signal.SIGINT)
            said = process.stderr.read()
    assert "\n0 packets dropped by kernel" in said, said


def frames_of(file: Path) -> list[bytes]:
    """Frames of a capture, which may not be complete yet."""
    return [
        batch.arena[start : start + length].tobytes()
        for batch in read(file)
        for start, length in zip(
            batch.frames["offset"].tolist(), batch.frames["length"].tolist(), strict=True
        )
    ]


def tshark(file: Path, what: str) -> int:
    """Packets of a capture that tshark finds."""
    words = ["tshark", "-r", str(file), "-Y", what, "-T", "fields", "-e", "frame.number"]
    return len(subprocess.run(words, capture_output=True, text=True, check=True, timeout=300).stdout.split())


def send(client: Host, server: Host, sizes: Sequence[int], version: int) -> None:
    """Datagrams of these payloads to a port where nobody listens, a few a ms."""
    family, address = (socket.AF_INET6, server.ipv6) if version == 6 else (socket.AF_INET, server.ipv4)
    with namespaces.inside(client.namespace, lambda: socket.socket(family, socket.SOCK_DGRAM)) as handle:
        rng = random.Random(version)
        for size in sizes:
            with suppress(ConnectionRefusedError):
                handle.sendto(rng.randbytes(size), (address, CAPTURED_PORT))
            time.sleep(0.001)


@pytest.mark.parametrize("version", [4, 6])
def test_programs_run_as_over_a_cable(live: Fabric, version: int) -> None:
    """ping (fragments too) and iperf3, TCP and UDP: nothing is lost, and TCP gets all that it sent."""
    for host in live.parts.hosts[1:]:
        eventually(lambda host=host: ping(live.first, host, version=version)[0] == 3)  # type: ignore[misc]
    eventually(lambda: ping(live.first, live.last, version=version, flags=("-s", "4000"))[0] == 3)
    # the client receives, and ends the run when it has all, with more on its way
    told = iperf(live.first, live.last, version=version, flags=("-R", "-n", "3000000"))
    assert told["sum_sent"]["bytes"] >= told["sum_received"]["bytes"] >= 3_000_000
    before = live.missed()
    told = iperf(live.last, live.first, version=version, flags=("-u", "-b", "8M", "-n", "480000"))
    eventually(lambda: told["sum"]["lost_packets"] <= live.missed() - before, str(told["sum"]))
    assert live.registers.count(PortCounter.LABELS).sum() > 0


def test_hosts_see_no_label_and_inner_links_do(live: Fabric, tmp_path: Path) -> None:
    """What arrives at a host is what was sent, frame by frame, of every size and version; tshark finds IP
    protocol 253 in none of it, and on the links between switches in some.
    """
    files = {name: tmp_path / f"{name}.pcap" for name in ("sent", "received", "inner")}
    ways = f"udp port {CAPTURED_PORT}"
    uplink = next(live.parts.ports[one] for one, _ in live.parts.links).interface
    sizes = [*range(0, 1452, 7), 1452]
    before, missed = live.registers.counters.sum(axis=0), live.missed()
    count = 2 * len(sizes) + 400
    with (
        captured("eth0", files["sent"], ways, live.first.namespace),
        captured("eth0", files["received"], ways, live.last.namespace),
        captured(uplink, files["inner"], namespace=live.parts.switches),
    ):
        for version in (4, 6):
            send(live.first, live.last, sizes, version)
        send(live.first, live.last, [1000] * 400, 4)
        send_datagrams(live.parts, [live.first], Datagrams(1e6), 0.5, threading.Event())
        eventually(lambda: len(frames_of(files["sent"])) == count, every=0.2)
        eventually(lambda: len(frames_of(files["received"])) + live.missed() - missed >= count)
    sent, received = frames_of(files["sent"]), frames_of(files["received"])
    assert len(sent) == count
    assert not Counter(received) - Counter(sent)
    assert len(sent) - len(received) <= live.missed() - missed
    assert len(received) > 100
    counted = live.registers.counters.sum(axis=0) - before
    assert counted[PortCounter.RESTORED] > 0
    label = "ip.proto == 253 or ipv6.nxt == 253"
    assert tshark(files["received"], label) == 0
    assert tshark(files["received"], "udp") == len(received)
    assert tshark(files["inner"], label) > 0
    told = hopscope("label", "decode", str(files["inner"]), "--limit", "1")
    assert told.returncode == 0, told.stderr
    assert "labels" in json.loads(told.stdout.splitlines()[0])


def test_tracked_flows(live: Fabric, tmp_path: Path) -> None:
    """Of a tracked flow, all switches on the way label one packet in so many; last hops say whose it
    is, and the controller knows its way as the routes have it.
    """
    file = tmp_path / "exported.pcap"
    port, missed = live.state.export.rpartition(":")[2], live.missed()
    reader = TrackedReader.attach(Path(live.state.data, "regions", tracked_state.FILE_NAME))
    with captured("lo", file, f"udp port {port}"), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mark:
        send(live.parts.hosts[1], live.parts.hosts[2], [100] * 40, 4)
        eventually(lambda: reader.flows()["packets"].sum() + live.missed() - missed >= 4)
        mark.bind(("127.0.0.2", int(port)))  # a datagram from there is captured after all that came before
        mark.sendto(MARK, ("127.0.0.2", 9))
        eventually(lambda: any(MARK in frame for frame in frames_of(file)))
    told = hopscope("label", "decode", str(file), "--port", port)
    assert told.returncode == 0, told.stderr
    blocks = [block for block in map(json.loads, told.stdout.splitlines()) if block["tracked"]]
    assert 4 - (live.missed() - missed) <= len(blocks) <= 4
    assert blocks
    source, target = live.parts.hosts[1:3]
    eventually(lambda: reader.flows()["packets"].sum() >= len(blocks))
    (row,) = reader.flows()
    assert [int(row[name]) for name in ("packets", "hops", "changes", "late")] == [len(blocks), 3, 0, 0]
    ports, ways = live.parts.ports, next_ports(live.parts)
    chosen = {key: [(ports[one].node, ports[one].number) for one in way] for key, way in ways.items()}
    for block in blocks:
        assert block["flow"] == {
            "src": source.ipv4, "dst": target.ipv4, "proto": 17, "sport": int(row["sport"]),
            "dport": CAPTURED_PORT,
        }  # fmt: skip
        way = [(label["node_id"], label["egress_port"]) for label in block["labels"]]
        assert all(one in chosen[one[0], 2] for one in way)  # each by a port towards this host
        assert next(port.host for port in ports if (port.node, port.number) == way[-1]) == 2
    told = row["path"][["node_id", "egress_port"]][:3].tolist()
    assert told == way
    assert [node for node, _ in told[::2]] == [1, 2]


def test_the_one_bit_register(live: Fabric) -> None:
    """A port whose flag is set labels every packet, from the next one on (section 5), and no other does."""
    writable = Registers.attach(live.state.registers, writable=True)
    row = next(row for row, port in enumerate(live.parts.ports) if port.host == 3)
    before, missed = live.registers.counters.copy(), live.missed()

    def sent() -> int:
        return int(live.registers.counters[row, PortCounter.SENT] - before[row, PortCounter.SENT])

    writable.flag[row] = 1
    try:
        send(live.first, live.last, [100] * 200, 4)
        eventually(lambda: sent() + live.missed() - missed >= 200)
        after = live.registers.counters.copy()
    finally:
        writable.flag[row] = 0
    counted = (after - before)[:, [PortCounter.SENT, PortCounter.LABELS]].astype(int)
    assert counted[row, 0] == counted[row, 1] > 100
    others = np.delete(counted, row, axis=0).sum(axis=0)
    assert others[1] < 0.5 * others[0]


def test_a_link_that_is_down_at_its_other_end(live: Fabric) -> None:
    """What the ports of a link without a carrier send is counted as refused, and is all that was lost."""
    one, other = (live.parts.ports[row].interface for row in live.parts.links[0])
    missed = live.missed()
    before = live.registers.counters.astype(int)
    namespaces.ip([f"link set {one} down"], live.parts.switches)
    try:
        show = ("ip", "-n", live.parts.switches, "link", "show", other)
        eventually(lambda: "NO-CARRIER" in namespaces.run(*show))
        told = send_datagrams(live.parts, live.parts.hosts, Datagrams(), 0.5, threading.Event())
    finally:
        namespaces.ip([f"link set {one} up"], live.parts.switches)
    missed = live.missed() - missed
    counted = dict(zip(live.parts.ports, live.registers.counters.astype(int) - before, strict=True))
    columns = [PortCounter.SENT, PortCounter.REJECTED, PortCounter.RECEIVED]
    ends = {port.interface: counted[port][columns].tolist() for port in live.parts.ports}
    for name in (one, other):
        sent, refused, received = ends[name]
        assert sent == refused > 0 == received, (name, ends)
    lost = sum(host.sent - host.received for host in told)
    refused = sum(end[1] for end in ends.values())
    assert refused <= lost <= refused + missed, (ends, missed)


def answers(host: Host, other: Host) -> bool:
    """Whether three pings in a row are answered."""
    return ping(host, other)[0] == 3


def test_traffic_goes_around_a_link_that_is_down(live: Fabric) -> None:
    """With one of two uplinks down all packets take the other one; with both down there is no path, and there
    is one when they are up again.
    """
    ports = {(port.node, port.number): row for row, port in enumerate(live.parts.ports)}
    uplinks = [ports[1, 3], ports[1, 4]]

    def sent() -> list[int]:
        return [int(count) for count in live.registers.count(PortCounter.SENT)[uplinks]]

    told = fabric("link", "leaf-0", "3", "down")
    assert told.stdout == "leaf-0 port 3 (to spine-0) is down\n", told.stderr
    try:
        eventually(lambda: live.registers.followed == live.registers.changes, "the switches did not follow")
        before = sent()
        for host in live.parts.hosts[2:]:
            eventually(partial(answers, live.first, host), "no path by the other link")
        after = sent()
        assert after[0] == before[0]
        assert after[1] >= before[1] + 6
        told = fabric("link", "spine-1", "1", "down")
        assert told.stdout == "spine-1 port 1 (to leaf-0) is down; 4 pairs of hosts have no path\n"
    finally:
        ends = [
            (live.parts.ports[row].node, live.parts.ports[row].number) for row in range(len(live.parts.ports))
        ]
        Registers.attach(live.state.registers, writable=True).set_link(ends, up=True)
    eventually(lambda: ping(live.first, live.last)[0] == 3, "no path after the links were up again")


def test_flows_are_tracked_while_it_runs(live: Fabric) -> None:
    """A flow is labelled at every hop from `track` on, and not after `untrack`."""
    source, target = live.parts.hosts[3], live.parts.hosts[0]
    reader = TrackedReader.attach(Path(live.state.data, "regions", tracked_state.FILE_NAME))

    def packets() -> int:
        rows = reader.flows()
        ours = (rows["dport"] == CAPTURED_PORT) & (rows["hops"] == 3)
        return int(rows["packets"][ours].sum())

    before = packets()
    told = fabric("track", f"{source.name}:{target.name}:1")
    assert [source.ipv4, target.ipv4, "1"] in [line.split() for line in told.stdout.splitlines()], told.stderr

    def followed() -> bool:
        send(source, target, [100] * 5, 4)
        return packets() >= before + 5

    eventually(followed, "no packet of the flow was labelled at every hop")
    told = fabric("untrack", f"{source.name}:{target.name}")
    assert source.ipv4 not in told.stdout
    assert all(every == 10 for *_, every in live.registers.tracked_flows())


def test_coverage_at_the_papers_setting(live: Fabric) -> None:
    """Above 99 % of ports with traffic were heard of in each telemetry interval (section 6.2: 99.72 %)."""
    # a machine that stood still for a while is not the switches' fault
    eventually(lambda: live.coverage() > 0.99, "coverage never was above 99 %")
    with traffic(live):
        eventually(lambda: _covered(live), "`status` never showed a coverage above 90 %")


def test_no_kernel_is_compiled_late(live: Fabric) -> None:
    """The switches compiled and loaded everything before they said that they were ready."""
    assert "not warmed up" not in (live.state.folder / "switches.log").read_text()


def _covered(live: Fabric) -> bool:
    told = fabric("status", "--format", "json", "--over", "0.3")
    assert told.returncode == 0, told.stderr
    rows = [json.loads(line) for line in told.stdout.splitlines()]
    assert len(rows) == len(live.parts.ports)
    assert not any(row["loss"] for row in rows)
    covered = "hopscope: coverage 9" in told.stderr or "hopscope: coverage 100" in told.stderr
    return covered and all(row["labels"] > 0 for row in rows)


def test_a_second_up_is_told(live: Fabric) -> None:
    """The fabric stays as it is; a port that there is not is told too."""
    again = fabric("up")
    assert again.returncode == 2
    assert f"fabric '{NAME}' is up already (leaf-spine:2x2x2, page http" in again.stderr
    assert all(live.state.running().values())
    wrong = fabric("loss", "leaf-0", "9", "0.1")
    assert wrong.returncode == 2
    assert "leaf-0 has no port 9: its ports are 1 to 4" in wrong.stderr


def left() -> list[object]:
    """What is there of the fabric."""
    folder = [one for one in (state.folder_of(NAME),) if one.exists()]
    return [*folder, *namespaces.found(prefix(NAME)), *namespaces.marked(state.mark_of(NAME))]


def test_pro_recovers_coverage_and_nothing_is_left(live: Fabric) -> None:
    """Under the same loss coverage is far higher with the adaptive controller than without. In between all
    processes are killed: `up` cleans up and starts again; and `down` leaves nothing, twice.
    """
    lose(live, LOSS)
    without = live.coverage()
    assert live.registers.count(PortCounter.LOST).sum() > 0
    switches, _ = live.state.processes["switches"]
    os.kill(switches, signal.SIGKILL)
    eventually(lambda: not live.state.running()["switches"])
    told = fabric("status", "--over", "0.1")
    assert told.returncode == 1
    assert "the switches ended: killed, or ended without an error" in told.stderr
    for process in namespaces.marked(state.mark_of(NAME)):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    eventually(lambda: not any(live.state.running().values()))
    assert f"hopscope fabric down --name {NAME} removes it" in fabric("traffic").stderr
    again = fabric("up", "--http-port", "0", "--adaptive", "shift")
    assert again.returncode == 0, again.stderr
    assert "removed the remains of an earlier run" in again.stderr
    other = Fabric()
    lose(other, LOSS)
    assert without < 0.9
    eventually(lambda: other.coverage() > without + 0.4 * (1 - without), f"no more than {without} without")
    assert other.registers.shift.max() > 0
    # a deleted link ends no switch: the others go on
    gone = next(port.interface for port in other.parts.ports if port.host == 1)
    Registers.attach(other.state.registers, writable=True).loss[:] = 0
    namespaces.ip([f"link del {gone}"], other.parts.switches)
    assert ping(other.first, other.last)[0] == 3
    assert all(other.state.running().values())
    done = fabric("down")
    assert done.returncode == 0, done.stderr
    assert "5 namespaces, its folder" in done.stdout
    assert left() == []
    assert fabric("down").stdout == f"{NAME}: nothing to remove\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_end_in_the_middle_of_a_start(tools: None, number: int) -> None:
    """Ctrl-C and SIGTERM while it starts leave nothing."""
    path = os.pathsep.join([str(Path(__file__).parents[2] / "src"), os.environ.get("PYTHONPATH", "")])
    with subprocess.Popen(
        [sys.executable, "-m", "hopscope", "fabric", "up", "--name", NAME, "--http-port", "0"],
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env={**os.environ, "PYTHONPATH": path},
    ) as process:  # fmt: skip
        assert process.stderr is not None
        while "starting the collector" not in (line := process.stderr.readline()):
            assert line, "it has ended"
        assert left()
        process.send_signal(number)
        assert process.wait(HANG_SECONDS) == 130
    assert left() == []


def test_what_was_half_made_goes_too(tools: None) -> None:
    """Namespaces without a folder, a folder without sense, and a program somebody started in a namespace."""
    name = f"{prefix(NAME)}half"
    namespaces.run("ip", "netns", "add", name)
    with subprocess.Popen(["ip", "netns", "exec", name, "sleep", "1000"]) as sleeping:
        try:
            eventually(lambda: namespaces.processes_in(name))
            state.folder_of(NAME).mkdir(parents=True)
            (state.folder_of(NAME) / state.STATE_FILE).write_text("{")
            (namespaces.FOLDER / f"{prefix(NAME)}file").touch()
            done = fabric("down")
            assert "2 namespaces, its folder" in done.stdout, done.stderr
            assert sleeping.wait(HANG_SECONDS) < 0
        finally:
            sleeping.kill()
    assert left() == []
    shutil.rmtree(state.folder_of(NAME), ignore_errors=True)
