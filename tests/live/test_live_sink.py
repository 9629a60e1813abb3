"""A live sink between two hosts: what they send arrives as it was, and what the switches wrote is told."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.capture.pcap.reader import read
from hopscope.detect.records import EVENT_VERSION
from hopscope.history.query import History
from hopscope.memory.ring import RingReader, attach_ring
from hopscope.testbed.namespaces import NamespaceError, processes_in
from support.network import inserter
from support.network.namespaces import ADDRESSES, PREFIX_VARIABLE, Network, clear_abandoned, namespaces
from support.packets.xdp_make import built
from support.processes.small_disk import fill, small_disk
from support.waiting import HANG_SECONDS, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
HERE = Path(__file__).parent
PATHS = {
    "PYTHONPATH": os.pathsep.join(
        [str(HERE.parent), str(HERE.parents[1] / "src"), os.environ.get("PYTHONPATH", "")]
    )
}
MARK = bytes.fromhex("c0ffeebadcab1e")
"""Content of the first and the last packets that are compared: captures begin and end one after the other."""
TCP_BYTES, UDP_BYTES = 4_000_000, 1_200_000


@pytest.fixture
def network(tool: Callable[..., str], tmp_path: Path) -> Iterator[Network]:
    """Namespaces; where they are not allowed the test is skipped, or fails where nothing may be missing."""
    for name in ("ip", "ethtool", "ping", "iperf3", "tcpdump", "tshark"):
        tool(name)
    with ExitStack() as stack:
        try:
            made = stack.enter_context(Network(tmp_path))
        except (OSError, NamespaceError) as error:
            if os.environ.get("HOPSCOPE_REQUIRE_TOOLS") == "1":
                raise
            pytest.skip(f"no network namespaces with veth pairs here: {error}")
        yield made


class Sink:
    """`hopscope sink` between the two inner links."""

    def __init__(self, network: Network, data: Path, *options: str) -> None:
        self._network = network
        self.program = network.start(
            "sink", sys.executable, "-m", "hopscope", "sink", "--pair", "s0:s1", "--data", str(data),
            "--http-port", "0", "--set", f"regions={network.folder / 'regions'}",
            "--set", "detect.flow_rows=64", "--set", "history.ring_events=16384",
            "--set", "detect.thresholds.flow_latency.raise_above=1000000", "--set", "sink.bypass=false",
            "--set", "detect.thresholds.hop_latency.raise_above=1000000", *options,
            ready='"collecting"', seconds=400, **PATHS,
        )  # fmt: skip
        self.url = json.loads((data / "owner.json").read_text())["api"].rstrip("/")

    def ask(self, path: str) -> Any:
        """What its API answers."""
        return self._network.ask("sink", f"{self.url}/api/v0/{path}")

    def readiness(self) -> Any:
        """What /readyz answers, with any status."""
        return json.loads(self._network.run("sink", "curl", "-s", f"{self.url}/readyz"))


class Capture:
    """tcpdump at a host's interface: all that it sends and receives."""

    def __init__(self, network: Network, host: str) -> None:
        self.file = network.folder / f"{host}.pcap"
        self._program = network.start(
            host, "tcpdump", "-i", f"{host}0", "-U", "-w", str(self.file), "-B", "32768", "-Z", "root",
            "--immediate-mode", ready="listening on",
        )  # fmt: skip

    def stop(self) -> None:
        """End it; it must not have missed a packet."""
        self._program.stop(signal.SIGINT)
        assert re.search(r"^0 packets dropped by kernel", self._program.said(), re.M), self._program.said()

    def sent_by(self, address: bytes) -> list[bytes]:
        """The frames with this source address (MAC), in order, from the first with MARK to the last."""
        found = [
            raw
            for batch in read(self.file)
            for start, length in zip(
                batch.frames["offset"].tolist(), batch.frames["length"].tolist(), strict=True
            )
            if (raw := batch.arena[start : start + length].tobytes())[6:12] == address
        ]
        marked = [number for number, raw in enumerate(found) if MARK in raw]
        return found[marked[0] : marked[-1] + 1]


def without_checksum(frame: bytes) -> bytes:
    """A frame with the checksum of its TCP, UDP or ICMPv6 as 0: a sender leaves it to its card."""
    out, at, protocol = bytearray(frame), 0, 0
    if frame[12:14] == b"\x08\x00" and not (frame[20] & 0x1F or frame[21]):
        at, protocol = 14 + 4 * (frame[14] & 15), frame[23]
    elif frame[12:14] == b"\x86\xdd":
        at, protocol = 54, frame[20]
    if field := {6: 16, 17: 6, 58: 2}.get(protocol):
        out[at + field : at + field + 2] = b"\0\0"
    return bytes(out)


def ping(network: Network, address: str, size: int, *flags: str) -> None:
    """Five answers to echo requests of a size: ping asks until it has them; what is lost, `compare` finds."""
    said = network.run("a", "ping", "-c", "5", "-i", "0.02", "-w", "200", "-s", str(size), *flags, address)
    answers = re.search(r"(\d+) received", said)
    assert answers, said
    assert int(answers[1]) >= 5, said


def datagrams(network: Network, server: str, *flags: str) -> None:
    """Datagrams to a server; those that it misses are those that found its socket's buffer full."""
    before = refused(network, server)
    said = iperf(network, server, *flags, "-u", "-n", str(UDP_BYTES), "-l", "1200")
    assert said["sum"]["lost_packets"] <= refused(network, server) - before
    assert said["sum_sent"]["bytes"] == UDP_BYTES


def refused(network: Network, host: str) -> int:
    """Datagrams at a host so far that found the buffer of their socket full."""
    names, values = (
        line.split() for line in network.run(host, "grep", "^Udp:", "/proc/net/snmp").splitlines()
    )
    six = network.run(host, "grep", "^Udp6RcvbufErrors", "/proc/net/snmp6").split()
    return int(dict(zip(names, values, strict=True))["RcvbufErrors"]) + int(six[1])


def iperf(network: Network, server: str, *flags: str) -> dict[str, Any]:
    """What iperf3 says at the end of one run between a host that serves and the other one."""
    client = "ab".replace(server, "")
    running = network.start(server, "iperf3", "-s", "-1", "--forceflush", ready="listening")
    said = network.run(client, "iperf3", "-c", ADDRESSES[server]["-6" in flags], "-J", *flags)
    running.process.wait(HANG_SECONDS)
    return json.loads(said)["end"]


def bad_checksums(file: Path) -> str:
    """Packets of a capture whose checksum tshark finds bad, one a line.

    Not TCP's 0xFFFF, which tshark calls bad: Linux writes it instead of 0 in every protocol
    (`skb_checksum_help`), once in 65,536 packets, and a receiver takes both for the same.
    """
    kinds = ("ip", "tcp", "udp", "icmp", "icmpv6")
    wanted = [
        word
        for kind in kinds
        if kind != "icmp" and kind != "icmpv6"
        for word in ("-o", f"{kind}.check_checksum:TRUE")
    ]
    bad = " or ".join(f"{kind}.checksum.status == 0" for kind in kinds)
    bad = f"({bad}) and not tcp.checksum == 0xffff"
    return subprocess.run(
        ["tshark", "-r", str(file), *wanted, "-Y", bad],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    ).stdout


def test_hosts_see_what_hosts_sent(network: Network, tool: Callable[..., str], tmp_path: Path) -> None:
    """ping and iperf3 (TCP and UDP, both ways, IPv4 and IPv6) run through INT switches and a sink as through
    a cable: every frame arrives as it was sent, once; and the sink tells flows, hops and events. Plain frames
    are forwarded in the kernel.
    """
    built(tool)
    network.run("a", "ethtool", "-K", "a0", "tx", "off")  # whole checksums at the sender, to be compared
    network.run("sink", "ethtool", "-K", "s0", "gro", "on")
    before = network.features("sink", "s0")
    words = (sys.executable, "-m", "support.network.inserter", "i0:i1", "i3:i2")
    switches = network.start("net", *words, ready="ready", seconds=400, **PATHS)
    sink = Sink(network, tmp_path / "data")
    assert "s0: GRO and LRO switched off" in sink.program.said()
    assert network.features("sink", "s0")["generic-receive-offload"] is False
    v4, v6 = ADDRESSES["b"]

    def in_kernel() -> bool:
        ping(network, v4, 56)
        return counters_of(sink)["xdp_forwarded_frames_total.unchanged"] > 0

    eventually(in_kernel)
    captures = {host: Capture(network, host) for host in "ab"}
    ping(network, v4, 56, "-p", MARK.hex())
    for size in (16, 56, 1000, 1472):
        ping(network, v4, size, "-M", "do")
    ping(network, v4, 4000)  # fragments
    ping(network, v6, 1452)
    for server, family in (("a", "-4"), ("b", "-4"), ("a", "-6")):
        # the client receives, and ends the run when it has all, with more on its way
        told = iperf(network, server, family, "-R", "-n", str(TCP_BYTES))
        assert told["sum_sent"]["bytes"] >= told["sum_received"]["bytes"] >= TCP_BYTES
    for server, family in (("b", "-4"), ("a", "-6")):
        datagrams(network, server, family, "-b", "20M")
    ping(network, v4, 56, "-p", MARK.hex())
    told_flows = flows_when_settled(sink)
    for capture in captures.values():
        capture.stop()
    compare(network, captures)
    assert_told(sink, told_flows)
    assert switches.stop() == 0
    assert "drops" not in switches.said(), "the switches lost frames, not the sink"
    assert sink.program.stop(signal.SIGINT) == 0, sink.program.said()
    assert "not warmed up" not in sink.program.said()
    assert network.features("sink", "s0") == before
    with pytest.raises(NamespaceError, match="100% packet loss"):
        network.run("a", "ping", "-c", "1", "-W", "1", v4)  # it was the sink through which all went


def test_a_full_disk_cuts_no_wire(network: Network, tmp_path: Path) -> None:
    """While the disk with the data folder is full every packet arrives, events are shown, and the log and
    /readyz say so; when there is room again, history has the events that waited, by itself.
    """
    with small_disk(tmp_path / "data", "1m") as data:
        words = (sys.executable, "-m", "support.network.inserter", "i0:i1", "i3:i2")
        network.start("net", *words, ready="ready", seconds=400, **PATHS)
        changes = ("--set", "detect.thresholds.hop_latency.raise_above=0", "--set", "history.keep_free=40%")
        sink = Sink(network, data, "--forwarding", "ring", *changes)
        ping(network, ADDRESSES["b"][0], 56)
        ballast = fill(data)
        before = newest(data)
        for _ in range(2):
            datagrams(network, "b", "-4", "-b", "5M")
        least = 2 * UDP_BYTES // 1200  # 4 hops above the limit each
        eventually(lambda: counters_of(sink)["journal_waiting_events"] > least)
        counters = counters_of(sink)
        assert not [key for key, count in counters.items() if key.startswith("forward_drops_total") and count]
        assert counters["kernel_drops_total"] == 0
        assert newest(data) > before, "events are not shown"
        eventually(lambda: not sink.readiness()["ready"])
        ready = sink.readiness()
        assert "it accepts no events" in next(
            part["detail"] for part in ready["components"] if part["name"] == "history"
        )
        sink.program.wait_for("; events wait in memory")
        ballast.unlink()
        sink.program.wait_for("history: events are written again")
        eventually(lambda: sink.readiness()["ready"])
        shown, lost = newest(data), counters_of(sink)["journal_lost_events_total"]
        assert sink.program.stop(signal.SIGINT) == 0, sink.program.said()
        with History(data) as history:
            found = history.events(limit=None, order="sequence")["sequence"]
        assert np.count_nonzero(found <= shown) == shown + 1 - lost


def newest(data: Path) -> int:
    """The number of the newest event in the worker's ring, which live readers see; -1: none."""
    ring = attach_ring(data / "regions" / "worker-0.events", EVENT_VERSION)
    events, _ = RingReader(ring, max(0, RingReader(ring).head - 1)).read()
    return int(events["sequence"][-1]) if len(events) else -1


def counters_of(sink: Sink) -> dict[str, int]:
    """Its counters, by `metrics` key."""
    return {
        ".".join([one["name"].removeprefix("hopscope_"), *(one["label"] or {}).values()]): one["value"]
        for one in sink.ask("summary")["counters"]
    }


def flows_when_settled(sink: Sink) -> list[dict[str, Any]]:
    """The flows, once nothing changes any more."""
    last: list[dict[str, Any]] = []
    for _ in range(50):
        now: list[dict[str, Any]] = sink.ask("flows")["items"]
        if now and now == last:
            break
        last = now
        time.sleep(0.3)
    return last


def compare(network: Network, captures: dict[str, Capture]) -> None:
    """What one host sent is what the other received."""
    macs = {
        host: bytes.fromhex(
            network.run(host, "cat", f"/sys/class/net/{host}0/address").strip().replace(":", "")
        )
        for host in "ab"
    }
    for sender, receiver in (("a", "b"), ("b", "a")):
        sent, received = (captures[host].sent_by(macs[sender]) for host in (sender, receiver))
        if sender == "b":  # which leaves checksums to its card
            assert received != sent
            sent, received = ([without_checksum(one) for one in some] for some in (sent, received))
        assert len(sent) > 1000
        assert len(received) == len(sent)
        # in any order: a host sends from several processors, and its capture has them in the order of these
        assert sorted(received) == sorted(sent)
    # host a sends whole checksums and gets those that were completed: its capture shows both directions
    assert not bad_checksums(captures["a"].file)


def assert_told(sink: Sink, flows: list[dict[str, Any]]) -> None:
    """The sink knows the flows with their hops, has stripped their packets, and found the slow ones."""
    ports = {(one["flow"]["proto"], one["flow"]["dport"]) for one in flows}
    assert {(6, 5201), (17, 5201)} <= ports
    for one in flows:
        assert one["hop_count"] == len(inserter.NODES), one
    detail = sink.ask(f"flows/{max(flows, key=lambda one: one['packets'])['flow']['id']}")
    assert [hop["node"]["id"] for hop in detail["path"]] == list(inserter.NODES)
    assert {hop["queue_occupancy"] for hop in detail["path"]} == {inserter.OCCUPANCY}
    counters = counters_of(sink)
    assert counters["stripped_packets_total"] == sum(one["packets"] for one in flows)
    assert counters["xdp_forwarded_frames_total.stripped"] > 0.95 * counters["stripped_packets_total"]
    assert counters["xdp_forwarded_frames_total.unchanged"], "none was forwarded in the kernel"
    assert counters["xdp_passed_frames_total.fragment"], "none was passed to the workers"
    assert counters["xdp_lost_metadata_total"] == 0
    assert counters["unstripped_packets_total"] == 0
    assert not [key for key, count in counters.items() if key.startswith("forward_drops_total") and count]
    assert counters["kernel_drops_total"] == counters["oversized_frames_total"] == 0
    assert counters["sink_packets_total"] == counters["stripped_packets_total"]
    slow = inserter.NODES[2]
    hop_events = [one for one in sink.ask("events")["items"] if one["metric"] == "hop_latency"]
    assert hop_events
    assert {one["node"]["id"] for one in hop_events} == {slow}
    assert sink.ask("bottleneck")["items"][0]["node"]["id"] == slow


def running(process: int) -> bool:
    """Whether a process runs, and is not only waited for by nobody yet."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def is_in(namespace: str, process: int) -> bool:
    """Whether a process has entered a namespace."""
    return process in processes_in(namespace)


def test_nothing_is_left_after_a_kill(network: Network, tmp_path: Path) -> None:
    """Ctrl-C ends the programs and deletes the namespaces; those of a killed run go with the next one."""
    script = (
        "import signal, sys, time; from pathlib import Path; from support.network.namespaces import Network\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background\n"
        "with Network(Path(sys.argv[1])) as network:\n"
        "    print(network.start('a', 'sleep', '1000').process.pid, flush=True); time.sleep(1000)\n"
    )
    mine = f"hopscope-killed{os.getpid()}"  # tests beside this one clear away what is abandoned, too
    for number, left in ((signal.SIGINT, 0), (signal.SIGKILL, 4)):
        with subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, env={**os.environ, **PATHS, PREFIX_VARIABLE: mine},
        ) as process:  # fmt: skip
            assert process.stdout is not None
            sleeping = int(process.stdout.readline())
            namespace = next(name for name in namespaces(mine) if name.endswith(f"-{process.pid}-a"))
            eventually(partial(is_in, namespace, sleeping))
            process.send_signal(number)
            process.wait()
        assert len(namespaces(mine)) == left
        assert running(sleeping) == bool(left)
        clear_abandoned(mine)
        assert not namespaces(mine)
        assert not running(sleeping)
