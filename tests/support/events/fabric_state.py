"""The state of a collector of a whole fabric, made at once: every flow has one report, whose hops are its
path.

It is fast enough for 100,000 flows over 1,280 switches, which no simulation of packets is.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from hopscope.base.names import Names
from hopscope.detect.thresholds import CONTROL_FILE, create_control
from hopscope.fabric.records import STAGES
from hopscope.fabric.topology import NO_PORT, Topology, flow_hash
from hopscope.runtime.pipeline.mode import pipeline_of
from hopscope.runtime.pipeline.shard import Shard
from hopscope.settings.collector import Settings
from hopscope.settings.detect import DetectSettings
from hopscope.settings.history import HistorySettings
from hopscope.settings.limits import MetricLimits, ThresholdSettings
from hopscope.wire.encode.encoder import encode_reports, mapped_v4, new_hops, new_reports
from hopscope.wire.records import Carried, Link, ReportBatch

INSTRUCTIONS = 0b1111_0001_0000_0000  # node, ports, latency, queue, link
Place = tuple[int, int]
"""Node id and egress port."""


def reports_of(
    topology: Topology,
    flows: int,
    *,
    time_ns: int,
    seed: int = 1,
    hot: Iterable[Place] = (),
    dropped: Iterable[Place] = (),
    sequence: int = 0,
) -> ReportBatch:
    """A report of each of `flows` flows between random hosts, by ECMP.

    A hop's latency is 1 to 20 us, its queue has up to 60, its link is used by 100 to 600 (parts per mille);
    at `hot` egress ports latencies are 2 ms and queues have 900. Flows through `dropped` ports are dropped
    there.
    """
    random = np.random.default_rng(seed)
    src, dst = random.integers(topology.hosts, size=(2, flows))
    dst = np.where(src == dst, (dst + 1) % topology.hosts, dst)
    sport = 1024 + np.arange(flows) % 60_000
    source, target = (topology.host_address[at].astype(np.uint32) for at in (src, dst))
    source = source + (np.arange(flows) // 60_000 << 28).astype(np.uint32)
    paths = topology.paths(src, dst, flow_hash(source, target, 6, sport, 80))[:, 1:]
    used = paths != NO_PORT
    port = topology.ports[paths[used]]
    hops = new_hops(len(port), INSTRUCTIONS)
    hops["node_id"], hops["egress_port"], hops["l2_egress_port"] = (
        port["node_id"],
        port["number"],
        port["number"],
    )
    hops["ingress_port"] = _ingress(topology, paths, used, src)
    places = port["node_id"].astype(np.int64) << 16 | port["number"]
    is_hot = np.isin(places, [node << 16 | number for node, number in hot])
    hops["hop_latency"] = np.where(is_hot, 2_000_000, random.integers(1_000, 20_000, len(port)))
    hops["queue_occupancy"] = np.where(is_hot, 900, random.integers(0, 60, len(port)))
    hops["tx_utilization"] = random.integers(100, 600, len(port))
    reports = new_reports(flows)
    reports["time_ns"], reports["source_lo"] = time_ns, mapped_v4(np.full(flows, 0x7F000001, np.uint32))
    reports["src_lo"], reports["dst_lo"] = mapped_v4(source), mapped_v4(target)
    reports["sport"], reports["dport"], reports["proto"], reports["ip_version"] = sport, 80, 6, 4
    reports["int_version"], reports["int_mode"], reports["instructions"] = 20, 1, INSTRUCTIONS
    reports["carried"] = Carried.FLOW | Carried.NODE_ID | Carried.PORTS
    count = used.sum(axis=1)
    first = np.cumsum(count) - count
    reports["hop_count"], reports["first_hop"] = count, first
    reports["node_id"] = port["node_id"][first + count - 1]
    reports["sequence"] = sequence + np.arange(flows)
    lost = np.isin(places, [node << 16 | number for node, number in dropped])
    owner = np.repeat(np.arange(flows), count)
    for at in np.flatnonzero(lost).tolist():  # the report of the drop ends at its port
        flow = int(owner[at])
        reports["drop_reason"][flow], reports["node_id"][flow] = 71, port["node_id"][at]
        reports["flags"][flow] = 1
        reports["hop_count"][flow] = at - first[flow] + 1
    return ReportBatch(reports, hops)


def _ingress(topology: Topology, paths: np.ndarray, used: np.ndarray, src: np.ndarray) -> np.ndarray:
    """Ingress port of each hop: where the link of the port before it ends."""
    before = np.full(paths.shape, NO_PORT, np.int64)
    last = src.astype(np.int64)  # the host's own interface has the first row numbers
    for stage in range(STAGES - 1):
        before[:, stage] = last
        last = np.where(used[:, stage], paths[:, stage], last)
    return topology.ports["peer_number"][before[used]]


class FabricCollector:
    """A worker's pipeline over a data folder, for a whole fabric; it reports when the caller says."""

    def __init__(self, folder: Path, topology: Topology, flows: int, raise_above: int = 1_000_000) -> None:
        """`raise_above`: limit of hop latencies, ns."""
        self.folder, self.topology, self.flows = folder, topology, flows
        self.names = Names(
            {switch.node_id: switch.name for switch in topology.switches},
            {
                (int(port["node_id"]), int(port["number"])): topology.port_name(row)
                for row, port in enumerate(topology.ports)
                if port["switch"] >= 0
            },
        )
        settings = Settings(
            data=folder,
            detect=DetectSettings(
                # A row of 12 places for 1.2 flows: none is evicted, whatever the hash's secret
                flow_rows=max(64, 1 << (flows * 5 // 6 - 1).bit_length()),
                ports=max(1024, 1 << (4 * len(topology.ports)).bit_length()),
                thresholds=ThresholdSettings(
                    hop_latency=MetricLimits(
                        change=20_000, raise_above=raise_above, clear_below=raise_above // 2
                    ),
                    queue_occupancy=MetricLimits(change=100, raise_above=500, clear_below=50),
                ),
            ),
            history=HistorySettings(ring_events=1 << 16, fsync_seconds=0),
        )
        regions = folder / "regions"
        for made in (regions, folder / "journal", folder / "segments"):
            made.mkdir(parents=True)
        (folder / "owner.json").write_text('{"schema": 1, "pid": 1}')
        create_control(regions / CONTROL_FILE, settings.limits)
        self.settings = settings
        self.pipeline = pipeline_of(settings, Shard(settings.history, data=folder, regions=regions))
        self._sequence = 0

    def report(
        self, time_ns: int, *, hot: Iterable[Place] = (), dropped: Iterable[Place] = (), seed: int = 1
    ) -> ReportBatch:
        """A report of every flow at once; returns them."""
        batch = reports_of(
            self.topology, self.flows, time_ns=time_ns, seed=seed, hot=hot, dropped=dropped,
            sequence=self._sequence,
        )  # fmt: skip
        self._sequence += self.flows
        assert self.pipeline.step(encode_reports(batch, link=Link.UDP_PAYLOAD)) == self.flows
        return batch

    def close(self) -> None:
        """Let go of everything."""
        self.pipeline.close()
