"""IPFIX: messages read by Wireshark's dissector and by nfdump, value by value."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap

from hopscope.detect.records import Kind, Metric
from hopscope.export import delivery
from hopscope.export.ipfix.templates import ntp
from hopscope.history.writing.journal import JournalWriter
from support.events.event_make import Events, random_events
from support.servers.bus_make import bus_sender
from support.servers.server_process import ServerProcess, free_port
from support.waiting import HANG_SECONDS, eventually

START, END = 1_699_999_999_000_000_001, 1_700_000_000_123_456_789
TUPLE = ("flow_id", "src_hi", "src_lo", "dst_hi", "dst_lo", "sport", "dport", "proto", "ip_version")


def made(flows: int, others: int) -> Events:
    """Records of flows, of which some have a latency, then events of all other kinds."""
    events = random_events(2 * flows + others, seed=3)
    events["sequence"] = np.arange(len(events))
    events["time_ns"] = END + np.arange(len(events)) // 2
    events["switch_ns"][::3] = 77
    rest = events[2 * flows :]
    rest["kind"][rest["kind"] == Kind.FLOW_RECORD] = Kind.CHANGE
    records = events[: 2 * flows]
    records["kind"] = Kind.FLOW_RECORD
    for name in ("src_lo", "dst_lo"):
        records[name][records["ip_version"] == 0] = 0xFFFF << 32 | 0x0A000001
    records["ip_version"][records["ip_version"] == 0] = 4
    records["flow_id"] |= np.uint64(1)
    records["hop"] = 0
    records["sport"] = np.arange(len(records))
    paths, latencies = records[::2], records[1::2]
    for name in TUPLE:
        latencies[name] = paths[name]
    paths["metric"], paths["previous"], paths["hop_count"] = Metric.FLOW_PATH, START, 3
    latencies["metric"], latencies["value"] = Metric.FLOW_LATENCY, 5000 * np.arange(flows) + 7
    latencies["flow_id"][::4] += np.uint64(2)  # of other flows
    return events


def addresses(row: np.void) -> tuple[str, str]:
    """Source and destination, as text."""
    found = []
    for side in ("src", "dst"):
        whole = ip_address((int(row[f"{side}_hi"]) << 64 | int(row[f"{side}_lo"])).to_bytes(16, "big"))
        found.append(str(getattr(whole, "ipv4_mapped", None) or whole))
    return found[0], found[1]


def sent(folder: Path, events: Events, url: str, **more: Any) -> Any:
    """Send events of a data folder; returns the counters."""
    with JournalWriter(folder, 2) as writer:
        writer.append(events)
        one, row = bus_sender(folder, "ipfix", url=url, **more)
        one.start()
        one.finish()
        assert one.ended(HANG_SECONDS)
    assert row["events_total"][0] == len(events), row
    return row


class Datagrams:
    """A UDP socket and what it has received."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self._socket.bind(("127.0.0.1", 0))
        self.url = f"udp://127.0.0.1:{self._socket.getsockname()[1]}"

    def received(self) -> list[bytes]:
        """All that has arrived."""
        found = []
        self._socket.setblocking(False)
        while True:
            try:
                found.append(self._socket.recv(65_535))
            except BlockingIOError:
                return found

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def datagrams() -> Iterator[Datagrams]:
    made = Datagrams()
    yield made
    made.close()


def dissected(tshark: str, folder: Path, messages: Sequence[bytes]) -> list[dict[str, Any]]:
    """Messages as Wireshark reads them; keys that are there several times have a list."""
    head = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / IP(src="192.0.2.1", dst="192.0.2.2")
    wrpcap(str(folder / "ipfix.pcap"), [head / UDP(sport=4000, dport=4739) / message for message in messages])
    words = [tshark, "-r", str(folder / "ipfix.pcap"), "-d", "udp.port==4739,cflow", "-T", "json"]
    words.append("--no-duplicate-keys")
    environment = {**os.environ, "TZ": "UTC"}  # it writes times in the local zone
    text = subprocess.run(words, capture_output=True, check=True, env=environment).stdout
    return [packet["_source"]["layers"]["cflow"] for packet in json.loads(text)]


def data(message: dict[str, Any], *numbers: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """The data records of a message with their template, of these templates."""
    for key, each in message.items():
        if key.startswith("Set ") and int(each["cflow.flowset_id"]) in numbers:
            for name, record in each.items():
                if name.startswith("Flow "):
                    yield int(each["cflow.flowset_id"]), record


def own(record: dict[str, Any], *, known: int) -> list[int]:
    """Values of elements that Wireshark does not know, in their order, of which the last is a path."""
    found = [text.replace(":", "") for text in record["cflow.enterprise_private_entry"]]
    path = [int(found[-1][at : at + 8], 16) for at in range(0, 64, 8)]
    assert len(found) == known
    return [*(int(text, 16) for text in found[:-1]), *path]


def when(record: dict[str, Any]) -> tuple[str, str]:
    """Begin and end of a flow, in ns."""
    _, tree = record["cflow.timedelta_tree"]
    return tree["cflow.abstimestart"], tree["cflow.abstimeend"]


def text_of(time_ns: int) -> str:
    """A time as Wireshark writes it."""
    assert 1_699_999_999 <= time_ns // 10**9 <= 1_700_000_000
    return f"Nov 14, 2023 22:13:{time_ns // 10**9 - 1_699_999_980}.{time_ns % 10**9:09d} UTC"


def test_every_value_is_dissected(tmp_path: Path, tool: Callable[[str], str], datagrams: Datagrams) -> None:
    """Flow records and events, with every value and ns; sequence numbers count data records."""
    tshark = tool("tshark")
    events = made(30, 60)
    sent(tmp_path / "data", events, datagrams.url, kinds=[], metrics=[])
    raw = datagrams.received()
    assert max(map(len, raw)) <= 1400
    messages = dissected(tshark, tmp_path, raw)
    count = 0
    flows: dict[int, dict[str, Any]] = {}
    others: dict[int, list[int]] = {}
    about: dict[int, dict[str, Any]] = {}
    for message in messages:
        assert (message["cflow.od_id"], message["cflow.sequence"]) == ("3", str(count))
        count += sum(1 for _ in data(message, *range(256, 300)))
        for number, record in data(message, 256, 257, 258, 259):
            values = own(record, known=3 if number < 258 else 5)
            flows[values[-10]] = {**record, "own": values, "delay": number > 257}
        for number, record in data(message, 260, 261, 262):
            values = own(record, known=13)
            others[values[0]], about[values[0]] = values, {**record, "number": number}
    names = [record for message in messages for _, record in data(message, 263)]
    assert [each["cflow.information_element_name"] for each in names][:4] == [
        *("hopscopeSequence", "hopscopeHopCount", "hopscopePath", "hopscopeFlowLatencyNanoseconds"),
    ]
    assert {each["cflow.private_enterprise_number"] for each in names} == {"32473"}
    alone = set()
    for at in range(0, 60, 2):
        row, next_row = events[at], events[at + 1]
        found = flows.pop(at)
        version = "v6" if row["ip_version"] == 6 else ""
        assert (found[f"cflow.srcaddr{version}"], found[f"cflow.dstaddr{version}"]) == addresses(row)
        assert int(found["cflow.srcport"]) == row["sport"]
        assert int(found["cflow.dstport"]) == row["dport"]
        assert int(found["cflow.protocol"]) == row["proto"]
        assert int(found["cflow.flow_id"]) == row["flow_id"]
        assert int(found["cflow.packets"]) == row["value"]
        assert when(found) == (text_of(START), text_of(int(row["time_ns"])))
        values = [at, 3, *row["path"].tolist()]
        if next_row["flow_id"] == row["flow_id"]:
            values = [int(next_row["value"]) // 1000, int(next_row["value"]), *values]
        else:
            alone.add(at + 1)
        assert found["own"] == values
    assert not flows
    assert 5 < len(alone) < 10
    for at in [*sorted(alone), *range(60, 120)]:
        row = events[at]
        names_of = (
            *("sequence", "kind", "metric", "reason", "hop", "hop_count", "value", "previous"),
            *("switch_ns", "node_id", "port", "ident"),
        )
        assert others.pop(at) == [*(int(row[name]) for name in names_of), *row["path"].tolist()]
        found = about.pop(at)
        assert found["cflow.observation_time_nanoseconds"] == text_of(int(row["time_ns"]))
        if found["number"] == 262:
            of_source = (Kind.SILENT, Kind.RETURNED, Kind.GAP, Kind.SOURCE_MOVED)
            assert row["kind"] in of_source or not row["flow_id"]
            whole = int(row["src_hi"]) << 64 | int(row["src_lo"])
            assert int(ip_address(found["cflow.exporter_addr_v6"])) == whole
        else:
            version = "v6" if found["number"] == 261 else ""
            assert (found[f"cflow.srcaddr{version}"], found[f"cflow.dstaddr{version}"]) == addresses(row)
            assert int(found["cflow.flow_id"]) == row["flow_id"]
    assert not others


class NfCapd(ServerProcess):
    """nfcapd, which writes flows into `folder`."""

    def __init__(self, program: str, folder: Path) -> None:
        self.port = free_port()
        words = [program, "-w", str(folder), "-p", str(self.port), "-b", "127.0.0.1"]
        super().__init__(words, folder, self._is_bound)

    def _is_bound(self) -> bool:
        return self._waiting() is not None

    def _waiting(self) -> int | None:
        """Bytes that wait in its socket (proc_net(5)); None: it has none yet."""
        for line in Path("/proc/net/udp").read_text().splitlines()[1:]:
            place, queues = line.split()[1], line.split()[4]
            if place == f"0100007F:{self.port:04X}":
                return int(queues.partition(":")[2], 16)
        return None

    def finish(self) -> None:
        """End it when it has read all that has arrived."""
        eventually(lambda: self._waiting() == 0)
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(HANG_SECONDS)
        self._process = None


def test_nfdump_has_every_flow(tmp_path: Path, tool: Callable[[str], str]) -> None:
    """Addresses, ports, protocol, packets and times; by default it gets flow records alone."""
    nfdump, server = tool("nfdump"), NfCapd(tool("nfcapd"), tmp_path)
    server.start()
    try:
        events = made(40, 0)
        sent(tmp_path / "data", events, f"udp://127.0.0.1:{server.port}", message_bytes=600)
        server.finish()
    finally:
        server.kill()
    assert "Sequence Errors: 0, Bad Packets: 0" in (tmp_path / "server.log").read_text()
    (path,) = tmp_path.glob("nfcapd.2*")
    words = [nfdump, "-r", str(path), "-o", "json"]
    text = subprocess.run(words, env={"TZ": "UTC"}, capture_output=True, check=True).stdout
    found = {
        (
            each.get("src4_addr") or str(ip_address(each["src6_addr"])),
            each["src_port"],
            each["dst_port"],
        ): each
        for each in json.loads(text)
        if each["type"] == "FLOW" and each["in_packets"]
    }
    for row in events[::2]:
        source, destination = addresses(row)
        each = found.pop((source, int(row["sport"]), int(row["dport"])), None)
        if not row["value"]:
            continue
        assert each is not None
        assert (each.get("dst4_addr") or str(ip_address(each["dst6_addr"]))) == destination
        assert (each["proto"], each["in_packets"]) == (row["proto"], row["value"])
        assert (each["first"], each["last"]) == ("2023-11-14T22:13:19.000", "2023-11-14T22:13:20.123")
    assert not found


def framed(stream: bytes) -> list[bytes]:
    """Messages of a stream, by their lengths."""
    found = []
    while stream:
        size = struct.unpack(">H", stream[2:4])[0]
        found.append(stream[:size])
        stream = stream[size:]
    return found


def test_a_session_begins_with_templates(
    tmp_path: Path, tool: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """TCP: after a lost connection, the next one begins with templates and at sequence 0."""
    monkeypatch.setattr(delivery, "MIN_PAUSE", 0.01)
    tshark = tool("tshark")
    streams: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server, JournalWriter(tmp_path / "data", 0) as writer:
        url = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        more = {"kinds": [], "metrics": [], "batch_events": 30, "message_bytes": 9000}
        events = made(0, 60)
        events["time_ns"] += np.arange(60)
        one, row = bus_sender(tmp_path / "data", "ipfix", url=url, **more)

        def serve() -> None:
            for _ in range(2):
                connection, _ = server.accept()
                with connection:
                    stream = b""
                    while part := connection.recv(65_536):
                        stream += part
                        if not streams:
                            break  # closed before the second block
                streams.append(stream)

        thread = threading.Thread(target=serve)
        thread.start()
        one.start()
        writer.append(events[:30])
        eventually(lambda: streams)
        writer.append(events[30:])
        eventually(lambda: row["events_total"][0] == 60)
        one.finish()
        assert one.ended(HANG_SECONDS)
        thread.join(HANG_SECONDS)
    for stream in streams:
        messages = dissected(tshark, tmp_path, framed(stream))
        assert messages[0]["cflow.sequence"] == "0"
        assert "Data Template" in next(key for key in messages[0] if key.startswith("Set 1"))
    found = {
        own(record, known=13)[0]
        for stream in streams
        for message in dissected(tshark, tmp_path, framed(stream))
        for _, record in data(message, 260, 261, 262)
    }
    assert found == set(range(60))


def test_templates_are_sent_again(tmp_path: Path, datagrams: Datagrams) -> None:
    """UDP: when they are due."""
    with JournalWriter(tmp_path, 0) as writer:
        one, row = bus_sender(
            tmp_path, "ipfix", url=datagrams.url, kinds=[], metrics=[], template_seconds=3600
        )
        one.start()
        for at in range(3):
            if at == 2:
                one.destination._domains[0].templates_due = 0.0  # type: ignore[attr-defined]
            writer.append(made(0, 5))
            eventually(lambda: row["sent_total"][0] == at + 1)  # noqa: B023
        one.finish()
        assert one.ended(HANG_SECONDS)
    sets = [struct.unpack(">H", message[16:18])[0] for message in datagrams.received()]
    templates = [at for at, number in enumerate(sets) if number == 2]
    assert len(templates) == 2
    assert templates[0] == 0


@given(st.integers(0, 2**62))
def test_times_of_ntp(time_ns: int) -> None:
    """A reader that rounds down has the same ns."""
    (found,) = ntp(np.array([time_ns % 4_000_000_000_000_000_000], np.uint64)).tolist()
    whole, rest = divmod(time_ns % 4_000_000_000_000_000_000, 10**9)
    seconds, fraction = found >> 32, found & (2**32 - 1)
    assert seconds == (whole + 2_208_988_800) % 2**32
    assert fraction * 10**9 >> 32 == rest
