"""sFlow and IPFIX as others read and send them: tshark on the same bytes, softflowd as a real exporter."""

from __future__ import annotations

import socket
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from hopscope.capture.pcap.writer import PcapWriter
from hopscope.wire.address import address, number_of
from hopscope.wire.ipfix.decoder import IpfixDecoder
from hopscope.wire.records import Link, Records
from hopscope.wire.sflow.decoder import SflowDecoder
from support.packets import ipfix_make, sflow_make
from support.packets.by_hand import ethernet, ipv4, ipv6, tcp, udp
from support.packets.wire_cases import frame_batch
from support.waiting import HANG_SECONDS

pytestmark = pytest.mark.kernel


@pytest.fixture
def tshark(tool: Callable[..., str], tmp_path: Path) -> Callable[..., list[list[list[str]]]]:
    """Values of some fields, by packet, as tshark decodes datagrams to a port."""
    program = tool("tshark")

    def read(port: int, protocol: str, datagrams: list[bytes], *names: str) -> list[list[list[str]]]:
        path = tmp_path / "sent.pcap"
        with PcapWriter(path) as writer:
            writer.write(frame_batch([ethernet(ipv4(udp(one, port))) for one in datagrams]))
        command = [program, "-n", "-r", str(path), "-d", f"udp.port=={port},{protocol}", "-T", "fields"]
        command += ["-E", "separator=|", *(word for name in names for word in ("-e", name))]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return [[cell.split(",") for cell in line.split("|")] for line in done.stdout.splitlines()]

    return read


def payloads(datagrams: list[bytes], source: str = "192.0.2.99") -> object:
    batch = frame_batch(datagrams, link=Link.UDP_PAYLOAD)
    batch.frames["source_lo"] = number_of(source) & (1 << 64) - 1
    batch.frames["time_ns"] = 1
    return batch


def test_tshark_reads_the_same_samples(tshark: Callable[..., list[list[list[str]]]]) -> None:
    """Agent, sequence, rate, ports, addresses and ports of the sampled packets, and counters."""
    packets = [ethernet(ipv4(udp(bytes(40)))), ethernet(ipv4(tcp(b"", dport=443), 6))]
    sent = [
        sflow_make.datagram(
            sflow_make.flow(sflow_make.raw(packet), rate=rate, input_=rate + 1, output=rate + 2),
            sequence=rate,
        )
        for rate, packet in zip((64, 512), packets, strict=True)
    ]
    sent.append(sflow_make.datagram(sflow_make.counters(sflow_make.interface(9, 10**12, out_discards=3))))
    shown = tshark(
        6343,
        "sflow",
        sent,
        "sflow_245.agent",
        "sflow_245.sequence_number",
        "sflow.flow_sample.sampling_rate",
        "sflow.flow_sample.input_interface",
        "sflow.flow_sample.output_interface_value",
        "udp.dstport",
        "tcp.dstport",
        "sflow_245.ifindex",
        "sflow_245.ifoutoct",
        "sflow_245.ifoutdisc",
    )
    batch = SflowDecoder().decode(payloads(sent))  # type: ignore[arg-type]
    for number, (row, hop) in enumerate(zip(batch.reports[:2], batch.hops, strict=True)):
        agent, sequence, rate, port_in, port_out, udp_ports, tcp_ports = shown[number][:7]
        assert agent == [address(0, 0xFFFF << 32 | int(row["node_id"]))]
        assert (sequence, rate) == ([str(row["sequence"])], [str(row["packet_id"])])
        assert (port_in, port_out) == ([str(hop["ingress_port"])], [str(hop["egress_port"])])
        assert str(row["dport"]) in (udp_ports if row["proto"] == 17 else tcp_ports)
    assert shown[2][7:] == [["9"], [str(10**12)], ["3"]]


@pytest.mark.parametrize("version", [9, 10])
def test_tshark_reads_the_same_flow_records(
    tshark: Callable[..., list[list[list[str]]]], version: int
) -> None:
    """Addresses, ports, interfaces and packets of three records."""
    records = b"".join(
        ipfix_make.record(f"10.0.0.{n}", f"10.1.0.{n}", 6, 1000 + n, 443, n, n + 1, 10**n)
        for n in range(1, 4)
    )
    template = ipfix_make.template(256, ipfix_make.FLOW)
    data = ipfix_make.set_of(256, records)
    if version == 9:
        sent = [ipfix_make.packet_9(ipfix_make.set_of(0, template), data, sequence=3, count=4)]
    else:
        sent = [ipfix_make.message(ipfix_make.set_of(2, template), data, sequence=3)]
    (shown,) = tshark(
        4739,
        "cflow",
        sent,
        "cflow.srcaddr",
        "cflow.dstaddr",
        "cflow.srcport",
        "cflow.dstport",
        "cflow.protocol",
        "cflow.inputint",
        "cflow.outputint",
        "cflow.packets",
    )
    batch = IpfixDecoder().decode(payloads(sent))  # type: ignore[arg-type]
    rows, hops = batch.reports, batch.hops
    assert shown == [
        [address(0, int(value)) for value in rows["src_lo"]],
        [address(0, int(value)) for value in rows["dst_lo"]],
        *[[str(value) for value in rows[name]] for name in ("sport", "dport", "proto")],
        *[[str(value) for value in hops[name]] for name in ("ingress_port", "egress_port")],
        [str(value) for value in rows["packet_id"]],
    ]


@pytest.mark.parametrize(("version", "sampling"), [("9", 1), ("10", 1), ("10", 10), ("9", 10)])
def test_softflowd(tool: Callable[..., str], tmp_path: Path, version: str, sampling: int) -> None:
    """A real exporter, of a capture: every flow with all its packets, or with as many as its sampling makes
    of them.
    """
    packets: list[bytes] = []
    flows = {(198, n): 10 * n for n in range(1, 8)}
    for (_, n), count in flows.items():
        packets += [ethernet(ipv4(udp(bytes(20), dport=5000 + n)))] * count
    packets += [ethernet(ipv6(tcp(b"", dport=7000), 6), 0x86DD)] * 20
    capture = tmp_path / "traffic.pcap"
    with PcapWriter(capture) as writer:
        writer.write(frame_batch(packets))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.setblocking(False)
        to = f"127.0.0.1:{receiver.getsockname()[1]}"
        command = [
            tool("softflowd"),
            "-r",
            str(capture),
            "-n",
            to,
            "-v",
            version,
            "-s",
            str(sampling),
            "-6",
            "-d",
            "-p",
            str(tmp_path / "pid"),
            "-c",
            "none",
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=HANG_SECONDS)
        sent = []
        while True:
            try:
                sent.append(receiver.recv(65536))
            except BlockingIOError:
                break
    decoder = IpfixDecoder()
    batch = decoder.decode(payloads(sent))  # type: ignore[arg-type]
    reports: Records = batch.reports[batch.reports["hop_count"] == 1]
    assert not batch.reports["reason"].any()
    assert set(reports["version"].tolist()) == {100 + int(version)}
    found: Counter[tuple[int, int, int]] = Counter()
    for one in reports:
        found[int(one["ip_version"]), int(one["proto"]), int(one["dport"])] += int(one["packet_id"])
    if sampling == 1:
        assert found == {(4, 17, 5000 + n): count for (_, n), count in flows.items()} | {(6, 6, 7000): 20}
    else:
        assert sum(found.values()) == sum(flows.values()) + 20
        assert decoder.counts()["ipfix_options_records"] >= 1
    assert decoder.counts()["ipfix_expired_sets"] == decoder.counts()["ipfix_waiting_sets"] == 0
