"""Reports that the sink sends: packets as they are, aggregates of flows, sequence numbers, nothing waits."""

from __future__ import annotations

import collections
import ctypes
import errno
import socket
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from hopscope.detect.counters import INDEX
from hopscope.detect.flows.tables import open_tables
from hopscope.detect.sink.flow_report import flow_reports
from hopscope.detect.sink.live import LiveFlows
from hopscope.detect.sink.records import EVICTED, EvictionReason
from hopscope.runtime.pipeline.mode import pipeline_of
from hopscope.runtime.sink.reports import SinkReporter
from hopscope.settings.collector import Settings
from hopscope.settings.detect import DetectSettings
from hopscope.settings.section import host_and_port
from hopscope.settings.sink import SinkReportSettings
from hopscope.wire.decode.extras import extras
from hopscope.wire.decode.plain import decode_plain
from hopscope.wire.dialect import DEFAULT, FLOW_OF_HOP, FLOW_OF_REPORT, Dialect
from hopscope.wire.encode.encapsulate import carries_stack, enclose
from hopscope.wire.encode.encoder import mapped_v4, new_hops, new_reports
from hopscope.wire.records import REPORT, Flag, FrameBatch, Link, ReportBatch
from oracle import report as codec
from oracle.encode import encode_scalar
from oracle.ifa import IfaForm, insert_ifa
from support.packets.packet_cases import Packet
from support.packets.tshark import Tshark, reports
from support.packets.wire_cases import frame_batch, frames_of
from support.waiting import HANG_SECONDS

PACKETS = Dialect("packets", packets=True)
VERSIONS = {5: "0.5", 10: "1.0", 20: "2.0"}


def packets(
    int_version: int = 20, count: int = 4, hops: int = 3, six: bool = False
) -> tuple[FrameBatch, ReportBatch]:
    """Packets with INT-MD, TCP and UDP by turns, with a payload of 500 bytes, and what was read in them."""
    rows = new_reports(count, 10)
    rows["int_version"], rows["instructions"], rows["hop_count"] = int_version, 0xF100, hops
    rows["first_hop"] = np.arange(count) * hops
    rows["proto"], rows["sport"], rows["dport"] = 6 + 11 * (np.arange(count) % 2), 4000, 53
    rows["src_lo"] = mapped_v4(np.arange(count, dtype=np.uint32) + 0x0A000001)
    if six:
        rows["ip_version"], rows["src_hi"], rows["dst_hi"] = 6, 0x20010DB8 << 32, 0x20010DB8 << 32
    path = new_hops(count * hops, 0xF100)
    path["node_id"], path["hop_latency"] = np.arange(len(path)) + 1, 250
    path["queue_id"], path["queue_occupancy"] = 3, 77
    inside = 42 + 16
    frames = [frame[inside:] + bytes(500) for frame in frames_of(encode_scalar(ReportBatch(rows, path)))]
    batch = frame_batch(frames)
    batch.frames["time_ns"] = 7_000_000_000 + np.arange(count)
    return batch, decode_plain(batch, PACKETS)


def flow_records(count: int = 3, hops: int = 3, proto: int = 6, ip: int = 4) -> np.ndarray:
    """EVICTED records of random values."""
    rng = np.random.default_rng(hops)
    flows = np.zeros(count, EVICTED)
    flows["flow_id"] = rng.integers(1, 2**63, count)
    flows["src_lo"], flows["dst_lo"] = 0xFFFF0A000001 + np.arange(count), 0xFFFF0A000002
    if ip == 6:
        flows["src_hi"], flows["dst_hi"] = 0x20010DB8 << 32, 0x20010DB8 << 32 | 1
    flows["first_ns"], flows["last_ns"] = 10**18, 10**18 + rng.integers(1, 10**9, count)
    flows["packets"], flows["path_hash"] = rng.integers(1, 2**40, count), rng.integers(1, 2**63, count)
    for name in ("latency_latest", "latency_sum", "latency_samples"):
        flows[name] = rng.integers(1, 2**40, count)
    flows["sport"], flows["dport"], flows["proto"], flows["ip_version"] = 4000, 53, proto, ip
    flows["hop_count"], flows["reason"] = hops, EvictionReason.EXPIRED
    each = flows["hops"]
    each["samples"] = rng.integers(1, 1000, each.shape)
    for name, most in (("latency", 2**32), ("occupancy", 2**24), ("utilization", 2**32)):
        each[f"{name}_sum"] = rng.integers(0, most, each.shape) * each["samples"]
        each[f"{name}_latest"] = rng.integers(0, most, each.shape)
    each["node_id"], each["port"], each["queue_id"] = rng.integers(1, 2**20, each.shape), 5, 2
    each["have"] = 7
    each["have"][..., -1] = each["have"][..., 0] = 1
    return flows


@pytest.mark.kernel
@pytest.mark.parametrize("version", VERSIONS)
def test_report_holds_the_packet(version: int) -> None:
    """Headers are those that the codecs write, then the frame's own bytes to a little behind its stack."""
    for int_version in (5, 10, 20):
        frames, batch = packets(int_version)
        sequence = 0x3FFFFE if version == 20 else 0xFFFFFFFE
        made = enclose(frames, batch.reports, version=version, node_id=9, hw_id=3, sequence=sequence)
        for i, (raw, frame) in enumerate(zip(frames_of(made), frames_of(frames), strict=True)):
            cut = int(batch.reports["int_at"][i]) + 12 + 4 * 5 * 3 + 64
            inner, number, time = frame[:cut], sequence + i, 7_000_000_000 + i
            out = bytearray()
            if version == 5:
                head = codec.Report05(0, 0, Flag.TRACKED, 3, number % 2**32, time % 2**32)
                codec.push_report_0_5(out, head)
            elif version == 10:
                codec.push_report_1_0(
                    out, codec.Report10(4, 0, 0, Flag.TRACKED, 3, 9, number % 2**32, time % 2**32)
                )
            else:
                codec.push_group(out, codec.Group20(3, number % 2**22, 9))
                words = (8 + len(inner) + 3) // 4
                codec.push_report_2_0(out, codec.Report20(1, 3, words, 0, Flag.TRACKED))
                out += bytes(8)
                inner += bytes(-len(inner) % 4)
            assert raw == bytes(out) + inner


@pytest.mark.kernel
def test_long_stacks_and_other_links() -> None:
    """Metadata of the source alone goes along whole; a frame of a link without Ethernet gets a header."""
    frames, batch = packets(hops=40)
    again = decode_plain(enclose(frames, batch.reports, version=20, node_id=1, hw_id=0, sequence=0))
    assert again.reports["hop_count"].tolist() == [40] * 4
    batch.reports["ds_flags"] = 1
    (longest, *_) = frames_of(enclose(frames, batch.reports, version=5, node_id=1, hw_id=0, sequence=0))
    assert len(longest) == 12 + min(len(frames_of(frames)[0]), int(batch.reports["int_at"][0]) + 1020 + 64)
    for six in (False, True):
        raw = frame_batch([frame[14:] for frame in frames_of(packets(six=six)[0])], Link.RAW_IP)
        read = decode_plain(raw, PACKETS)
        again = decode_plain(enclose(raw, read.reports, version=20, node_id=1, hw_id=0, sequence=0))
        assert again.reports["reason"].tolist() == [0] * 4
        assert again.hops.tobytes() == read.hops.tobytes()


@pytest.mark.kernel
@pytest.mark.parametrize("version", VERSIONS)
def test_reports_of_packets_with_ifa(version: int) -> None:
    """A collector reads the flow and the hops from the report, as the sink reads them from the packet."""
    forms = [
        (Packet(ip, protocol), IfaForm(nodes=nodes))
        for ip in (4, 6) for protocol in (6, 17) for nodes in (0, 3, 31)
    ]  # fmt: skip
    frames = frame_batch([insert_ifa(packet.frame(), form) for packet, form in forms])
    batch = decode_plain(frames, PACKETS)
    assert carries_stack(batch.reports).all()
    made = enclose(frames, batch.reports, version=version, node_id=9, hw_id=3, sequence=0)
    again = decode_plain(made)
    assert not again.reports["reason"].any()
    for name in ("int_version", "hop_count", "src_lo", "dst_lo", "proto", "sport", "dport"):
        assert again.reports[name].tolist() == batch.reports[name].tolist()
    assert again.hops.tobytes() == batch.hops.tobytes()


def test_only_packets_with_a_stack() -> None:
    """INT-MX, IOAM, damaged rows and rows without telemetry are not reported."""
    rows = np.zeros(6, REPORT)
    rows["int_version"], rows["int_mode"] = (20, 20, 91, 20, 0, 92), (1, 3, 4, 1, 0, 7)
    rows["reason"][3] = 1
    assert carries_stack(rows).tolist() == [True, False, False, False, False, True]


@pytest.mark.parametrize(("proto", "ip"), [(6, 4), (17, 6), (1, 4)])
def test_flow_in_a_report_2_0(proto: int, ip: int) -> None:
    """Every number of an EVICTED record is in its report: flow, means, and the rest by name."""
    for hops in (0, 3, 8):
        flows = flow_records(3, hops, proto, ip)
        made = flow_reports(flows, version=20, node_id=9, hw_id=3, sequence=5)
        batch = decode_plain(made)
        rows = batch.reports
        assert rows["reason"].tolist() == [0] * 3
        assert rows["sequence"].tolist() == [5, 6, 7]
        assert set(rows[["node_id", "hw_id", "ttl"]].tolist()) == {(9, 3, 0)}
        for name in ("src_hi", "src_lo", "dst_hi", "dst_lo", "proto", "ip_version", "hop_count"):
            assert (rows[name] == flows[name]).all(), name
        assert (rows["sport"] == (0 if proto == 1 else flows["sport"])).all()
        more = extras(batch, made, DEFAULT)
        for i, flow in enumerate(flows):
            told = more.of_report(i)
            assert told["flow_part"] == EvictionReason.EXPIRED << 24 | hops << 8
            for name in ("packets", "first_ns", "last_ns", "latency_sum", "latency_samples", "path_hash"):
                assert told[f"flow_{name}"] == flow[name], name
            assert told["flow_id"] == flow["flow_id"]
            assert len(told) == len(FLOW_OF_REPORT)
            for k in range(hops):
                _same_hop(batch.hops[int(rows["first_hop"][i]) + k], flow["hops"][k])
                at = int(rows["first_hop"][i]) + k
                assert more.of_hop(at) == {name: flow["hops"][k][name] for _, name, _ in FLOW_OF_HOP}


def _same_hop(shown: np.void, hop: np.void) -> None:
    assert shown["node_id"] == hop["node_id"]
    assert shown["egress_port"] == hop["port"]
    columns = (
        ("latency", "hop_latency"),
        ("occupancy", "queue_occupancy"),
        ("utilization", "tx_utilization"),
    )
    for bit, (name, column) in enumerate(columns):
        if hop["have"] >> bit & 1:
            assert shown[column] == hop[f"{name}_sum"] // hop["samples"]
        else:
            assert shown["null"]
    if hop["have"] & 2:
        assert shown["queue_id"] == hop["queue_id"]


@pytest.mark.parametrize("version", [5, 10])
def test_flow_in_older_reports(version: int) -> None:
    """0.5 and 1.0 have the flow and its means; a part of a longer path says that it is not the whole."""
    for proto in (6, 17, 1):
        flows = flow_records(3, 3, proto)
        flows["hop_count"][2], flows["first_hop"][2] = 11, 8
        made = flow_reports(flows, version=version, node_id=9, hw_id=3, sequence=5)
        batch = decode_plain(made)
        rows = batch.reports
        assert rows["reason"].tolist() == [0] * 3
        assert rows["hop_count"].tolist() == [3 if proto != 1 else 0] * 3
        assert (rows["src_lo"] == flows["src_lo"]).all()
        assert (rows["proto"] == proto).all()
        assert (rows["ttl"] == 0).all()
        if proto != 1:
            assert rows["int_flags"].tolist() == [0, 0, 1]
            for i in range(3):
                for k in range(3):
                    _same_hop(batch.hops[int(rows["first_hop"][i]) + k], flows["hops"][i, k])


def test_tshark_reads_them(tool: Callable[..., str], tmp_path: Path) -> None:
    """tshark with our dissector shows every report, the counts of a flow by name, and nothing malformed."""
    tshark = Tshark(tool("tshark"), tmp_path)
    flows = flow_records(2, 8)
    blocks = [flow_reports(flows, version=v, node_id=9, hw_id=3, sequence=0) for v in VERSIONS]
    frames, batch = packets()
    blocks += [enclose(frames, batch.reports, version=v, node_id=9, hw_id=3, sequence=2) for v in VERSIONS]
    payloads = [raw for block in blocks for raw in frames_of(block)]
    outer = [bytes.fromhex("45000000000040004011000 00a0000010a0000fe".replace(" ", "")) for _ in payloads]
    datagrams = [
        bytes(12) + b"\x08\x00" + head[:2] + (28 + len(raw)).to_bytes(2, "big") + head[4:]
        + (32766).to_bytes(2, "big") * 2 + (8 + len(raw)).to_bytes(2, "big") + bytes(2) + raw
        for head, raw in zip(outer, payloads, strict=True)
    ]  # fmt: skip
    capture = tshark.write("sink.pcap", frame_batch(datagrams))
    shown = [reports(layers) for layers in tshark.frames(capture, dialect="spec")]
    assert [len(one) for one in shown] == [1] * len(payloads)
    assert not any("error" in one[0] for one in shown)
    assert [len(one[0]["hops"]) for one in shown] == [8] * 6 + [3] * 12
    lines = tshark.run(capture, "-T", "fields", "-e", "hopscope.int.domain.flow_packets").splitlines()
    assert [line for line in lines if line] == [f"{packets:016x}" for packets in flows["packets"]]
    assert not tshark.run(capture, "-Y", "_ws.malformed").strip()


@pytest.fixture
def receiver() -> Iterator[socket.socket]:
    """A socket on loopback with room for some hundred reports."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        one.bind(("127.0.0.1", 0))
        one.settimeout(HANG_SECONDS)
        yield one


class Found:
    """What a detector found: two packets caused events."""

    def __init__(self) -> None:
        self.event_rows = np.array([1, 4], np.uint32)
        self.tables = {"flows": open_tables(DetectSettings(flow_rows=16), None, 0)["flows"]}

        self.on_eviction: Callable[[np.ndarray], object] | None = None


def _reporter(
    receiver: socket.socket, shard: int = 0, found: Found | None = None, **settings: object
) -> tuple[SinkReporter, collections.Counter[str]]:
    to = f"127.0.0.1:{receiver.getsockname()[1]}"
    counted: collections.Counter[str] = collections.Counter()
    report = SinkReportSettings.model_validate({"to": to, "node": 9, **settings})
    return SinkReporter(report, found or Found(), lambda key, n: counted.update({key: n}), shard), counted


def _received(receiver: socket.socket, count: int) -> FrameBatch:
    batch = frame_batch([receiver.recv(65535) for _ in range(count)], Link.UDP_PAYLOAD)
    batch.frames["source_lo"], batch.frames["time_ns"] = 0xFFFF7F000001, 10**18
    return batch


@pytest.mark.kernel
@pytest.mark.parametrize("version", VERSIONS.values())
def test_another_collector_finds_no_gap(receiver: socket.socket, version: str) -> None:
    """Packets, events and flows of two workers: each only in its mode, all there, no number missing; a lost
    one is found missing.
    """
    collector = pipeline_of(Settings())
    frames, batch = packets(count=6)
    for when, each in (("packet", 6), ("event", 2), ("flow", 3)):
        for shard in (0, 1):
            found = Found()
            reporter, counted = _reporter(receiver, shard, found, when=when, version=version)
            for _ in range(2):
                reporter.update(batch, frames)
                if found.on_eviction is not None:
                    found.on_eviction(flow_records(3))
            reporter.tick(10**18)
            reporter.close()
            got = _received(receiver, 2 * each)
            assert reporter.sequence == counted["sink_reports_total"] == 2 * each
            got.frames["source_lo"] += shard + 2 * ("packet", "event", "flow").index(when)
            assert collector.step(got) == 2 * each
    assert collector.shard.counters[INDEX["lost_reports"]] == 0
    assert collector.shard.counters[INDEX["duplicate_reports_total"]] == 0
    reporter, _ = _reporter(receiver, 5, when="event", version=version)
    for _ in range(2):
        reporter.update(batch, frames)
    reporter.close()
    got = _received(receiver, 4)
    collector.step(FrameBatch(got.arena, got.frames[[0, 2, 3]]))
    assert collector.shard.counters[INDEX["lost_reports"]] == 1
    collector.close()


@pytest.mark.kernel
def test_nothing_waits_for_the_socket(receiver: socket.socket) -> None:
    """A full buffer: what is not taken is counted, and its numbers are used up."""
    reporter, counted = _reporter(receiver, when="packet")
    frames, batch = packets(count=6)
    put, calls = reporter._sender._sendmmsg, count()

    def once(handle: int, messages: int, _: int, flags: int) -> int:
        assert flags & socket.MSG_DONTWAIT
        if next(calls) == 0:
            return int(put(handle, messages, 1, flags))
        ctypes.set_errno(errno.EAGAIN)
        return -1

    reporter._sender._sendmmsg = once  # type: ignore[assignment]
    reporter._sender._most = 1
    reporter.update(batch, frames)
    assert (counted["sink_reports_total"], counted["sink_report_drops_total"], reporter.sequence) == (1, 5, 6)
    reporter.close()


@pytest.mark.parametrize("to", ["", "192.0.2.1", "192.0.2.1:", "192.0.2.1:99999", "a:1/x", "u@h:1", "[::1:5"])
def test_addresses(to: str) -> None:
    """What is no HOST:PORT is refused with what was found and expected."""
    with pytest.raises(ValueError, match=r"found .*expected HOST:PORT"):
        host_and_port(to, least=1)
    assert host_and_port("[2001:db8::1]:32766", least=1) == ("2001:db8::1", 32766)


def test_living_flows_come_once_a_period() -> None:
    """Each flow with new packets comes once in a period, as it is in the table, long paths in parts."""
    table = open_tables(DetectSettings(flow_rows=16), None, 0)["flows"]
    rows, flows, hops = table["rows"], table["flows"], table["hops"]
    rng = np.random.default_rng(1)
    used = np.sort(rng.choice(16 * 12, 40, replace=False))
    rows["tag"][used // 12, used % 12] = 1
    flows["flow_id"][used], flows["packets"][used], flows["last_ns"][used] = used + 1, used, 5
    flows["hop_count"][used] = 3
    flows["hop_count"][used[7]], flows["pool_block"][used[7]] = 11, 2
    hops["node_id"], hops["samples"], hops["state"] = np.arange(len(hops)), 4, 1
    hops["latency_sum"], hops["queue_sum"], hops["buffer_slot"] = np.arange(len(hops)) * 8, 9, 3
    live = LiveFlows(table, 10.0, shard=2)
    assert len(live.due(10**9)) == 0
    found = np.concatenate([live.due(10**9 + k * 10**9) for k in range(1, 11)])
    assert found["flow_id"][found["first_hop"] == 0].tolist() == (used + 1).tolist()
    assert found["packets"].sum() == used.sum()
    assert (found["shard"] == 2).all()
    first = found[0]["hops"]
    assert first["node_id"][:4].tolist() == [*(used[0] * 8 + np.arange(3)), 0xFFFFFFFF]
    assert first["latency_sum"][:4].tolist() == [*(first["node_id"][:3] * 8), 0]
    assert (first["occupancy_sum"][0], first["queue_id"][0], first["samples"][0]) == (0, 3, 4)
    (rest,) = found[found["first_hop"] == 8]
    assert rest["hops"]["node_id"][:3].tolist() == (16 * 12 * 8 + 56 + np.arange(3)).tolist()
    flows["last_ns"][used[3]] = 12 * 10**9
    again = np.concatenate([live.due(k * 10**9) for k in range(12, 22)])
    assert again["flow_id"].tolist() == [used[3] + 1]
