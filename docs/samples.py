"""Make the sample captures of src/hopscope/library/samples/ again: the same seed gives the same bytes.

Run `python docs/samples.py` after a change of the simulator or of a format that moves a byte of them;
tests/library/test_samples.py fails when a file differs from what this would write.
"""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from hopscope.capture.pcap.reader import PcapWriter
from hopscope.fabric.edge import Datagram, Edge
from hopscope.fabric.faults import parse_fault
from hopscope.fabric.simulation import Simulation, SimulationModel
from hopscope.fabric.switch import ReportModel
from hopscope.fabric.topology import Topology, parse_topology
from hopscope.fabric.traffic import TrafficModel
from hopscope.library.batches import Reports
from hopscope.library.interface import read
from hopscope.settings.listen import PORTS
from hopscope.wire.craft.frames import Frame, craft, frame_batch
from hopscope.wire.records import FrameBatch, Link

FOLDER = Path(__file__).parents[1] / "src" / "hopscope" / "library" / "samples"
LABELLING_INTERVAL_NS = 50_000_000
SOURCE = (10 << 24) | (255 << 16) | 1
"""10.255.0.1: the first switch, as a source of reports."""


def topology() -> Topology:
    """Two leaves, two spines, eight hosts."""
    return parse_topology("leaf-spine:2x2", 1_000_000_000)


def microburst(folder: Path) -> None:
    """Telemetry Reports 2.0; from 0.4 s to 0.8 s a microburst fills the queue of leaf-1 port 2."""
    fabric = topology()
    model = SimulationModel(
        traffic=TrafficModel(flows=60, load=0.35),
        report=ReportModel(source_address=SOURCE),
        faults=(parse_fault(fabric, "microburst@0.4,node=leaf-1,port=2,duration=0.4"),),
        seed=7,
        reports_per_second=400,
    )
    simulation = Simulation(fabric, model)
    with PcapWriter(folder / "microburst.pcap") as writer:
        for batch in simulation.run(1.2, 0.02):
            writer.write(simulation.frames(batch, Link.ETHERNET))


def _reports(folder: Path) -> Iterator[dict[str, object]]:
    for batch in read(folder / "microburst.pcap"):
        assert isinstance(batch, Reports)
        yield from batch


def int_md(folder: Path) -> None:
    """The packets that the reports of the microburst are about, as they arrive at a sink: with INT-MD."""
    objects = [
        {key: report[key] for key in ("packet", "time_ns", "flow", "int", "hops")}
        for report in _reports(folder)
    ]
    _write(folder / "int-md.pcap", craft(objects[:250], renumber=True))


def ifa(folder: Path) -> None:
    """Copies of these packets with IFA, as the last switch mirrors them."""
    objects = [
        {key: report[key] for key in ("packet", "time_ns", "flow")}
        | {"int": {"version": "ifa"}, "hops": [_node_of_ifa(hop) for hop in _hops(report)]}
        for report in _reports(folder)
    ]
    _write(folder / "ifa.pcap", craft(objects[:200], renumber=True))


def _hops(report: dict[str, object]) -> list[dict[str, int]]:
    hops = report["hops"]
    assert isinstance(hops, list)
    return hops


def _node_of_ifa(hop: dict[str, int]) -> dict[str, object]:
    """What IFA has of a hop; seconds have 20 bits."""
    names = ("node_id", "ingress_port", "egress_port", "hop_latency", "queue_id", "queue_occupancy")
    wrapped = hop["ingress_time"] % (1_000_000_000 << 20)
    return {**{name: hop[name] for name in names}, "ingress_time": wrapped}


def labels(folder: Path) -> None:
    """The same packets in a fabric whose ports label one of them each 50 ms (INT-label, Base A)."""
    newest: dict[tuple[int, int], int] = {}
    frames = []
    for report in _reports(folder):
        items, flow = [], report["flow"]
        assert isinstance(flow, dict)
        for hop in _hops(report):
            port, now = (hop["node_id"], hop["egress_port"]), hop["egress_time"]
            if now - newest.get(port, 0) >= LABELLING_INTERVAL_NS:
                newest[port] = now
                items.append(_item(hop))
        time_ns = report["time_ns"]
        assert isinstance(time_ns, int)
        frames.append(Frame(_labelled(flow, items), time_ns))
    _write(folder / "labels.pcap", frame_batch(frames))


def edge(folder: Path) -> None:
    """Six seconds of an edge without INT: two sFlow agents, and a router that exports IPFIX. The queue of the
    second agent fills up from 4 s on.
    """
    frames, network, start_s = [], Edge(flows=4), 1_700_000_000
    for tick in range(12):
        time_ns = start_s * 1_000_000_000 + tick * 500_000_000
        for at, datagram in enumerate(network.tick(time_ns // 1_000_000_000)):
            frames.append(Frame(_sent(at, datagram), time_ns + at * 1_000_000))
    _write(folder / "edge.pcap", frame_batch(frames))


def _sent(node: int, datagram: Datagram) -> bytes:
    """A datagram on its way from a node of the edge to its collector; no checksum of UDP."""
    size = 8 + len(datagram.payload)
    body = struct.pack("!HHHH", 40000, PORTS[datagram.kind], size, 0) + datagram.payload
    source = socket.inet_aton(f"192.0.2.{node + 1}")
    return _ethernet(source + socket.inet_aton("192.0.2.250"), socket.IPPROTO_UDP, body)


def _item(hop: dict[str, int]) -> bytes:
    """An item of 32 bytes (INT-label 2; the fields are Hopscope's own)."""
    return struct.pack(
        "!IHHQIIQ", hop["node_id"], hop["ingress_port"], hop["egress_port"], hop["egress_time"],
        hop["hop_latency"], hop["queue_occupancy"], 0,
    )  # fmt: skip


def _labelled(flow: dict[str, object], items: list[bytes]) -> bytes:
    """An IPv4 packet with these labels in front of a UDP datagram of 64 bytes; no checksum of UDP."""
    sport, dport = flow["sport"], flow["dport"]
    body = struct.pack("!HHHH", sport, dport, 72, 0) + bytes(64)
    protocol = socket.IPPROTO_UDP
    if items:
        body = struct.pack("!BB", protocol, len(items)) + b"".join(reversed(items)) + body
        protocol = 253
    addresses = socket.inet_aton(str(flow["src"])) + socket.inet_aton(str(flow["dst"]))
    return _ethernet(addresses, protocol, body)


def _ethernet(addresses: bytes, protocol: int, body: bytes) -> bytes:
    """An IPv4 packet in Ethernet."""
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 0, 0x4000, 60, protocol, 0) + addresses
    total = sum(struct.unpack("!10H", header))
    total = (total & 0xFFFF) + (total >> 16)
    checksum = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    header = header[:10] + struct.pack("!H", checksum) + header[12:]
    return bytes.fromhex("020000000002020000000001") + b"\x08\x00" + header + body


def _write(path: Path, frames: FrameBatch) -> None:
    with PcapWriter(path) as writer:
        writer.write(frames)


def names(folder: Path) -> None:
    """Names of the switches and ports of all these captures."""
    (folder / "names.toml").write_text(topology().names_toml(), encoding="utf-8")


MAKERS: tuple[Callable[[Path], None], ...] = (microburst, int_md, ifa, labels, edge, names)


def main(folder: Path = FOLDER) -> int:
    """Write every sample."""
    folder.mkdir(parents=True, exist_ok=True)
    for make in MAKERS:
        make(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
