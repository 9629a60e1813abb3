"""One worker that receives INT, sFlow, IPFIX and NetFlow 9 at once."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from hopscope.capture.tcp.listener import TcpListener
from hopscope.capture.udp.listener import UdpListener
from hopscope.detect.records import Kind, Metric
from hopscope.history.files.journal_file import read_journals
from hopscope.runtime.pipeline.mode import Collector
from hopscope.runtime.pipeline.shard import Shard
from hopscope.runtime.processes.worker import Receiver, Worker, dialects_of, listener_of
from hopscope.runtime.warmup import steps_for
from hopscope.settings.collector import Settings
from hopscope.wire.craft.frames import craft
from support.packets import ipfix_make, sflow_make
from support.packets.by_hand import ethernet, ipv4, udp
from support.packets.wire_cases import frames_of
from support.waiting import eventually

pytestmark = pytest.mark.kernel
SETTINGS = Settings.model_validate(
    {
        "listen": [
            {"port": 0},
            {"kind": "sflow", "port": 0, "nodes": {"192.0.2.7": 2}},
            {"kind": "ipfix", "port": 0, "nodes": {"127.0.0.1": 9}},
        ],
        "detect": {
            "flow_rows": 16, "ports": 64, "sources": 16, "hop_pool": 4,
            "push_seconds": 0, "idle_seconds": 3600,  # kernels may take long to load between two datagrams
        },
        "history": {"ring_events": 1024},
    }
)  # fmt: skip
FLOW = {"src": "198.51.100.1", "dst": "203.0.113.9", "proto": 17, "sport": 4000, "dport": 53}


def _port_5(octets: int) -> bytes:
    return sflow_make.counters(sflow_make.interface(5, octets))


def test_one_flow_from_four_kinds_of_sources(tmp_path: Path) -> None:
    """INT has the path, sFlow the latency of its second node and a port's utilisation, an exporter counts
    packets: one flow, one record in history.
    """
    mode = Collector(SETTINGS)
    pipeline = mode.pipeline(Shard(SETTINGS.history, 0, data=tmp_path))
    worker, ports = Worker(pipeline), list[int]()
    for listen in SETTINGS.listen:
        listener = UdpListener(listen)
        listener.open()
        ports.append(listener.port)
        worker.receivers.append(Receiver(listener, dialects_of(listen, mode), print))
    report = {
        "report": {"version": "2.0"}, "int": {"instructions": "0xa000"}, "flow": FLOW,
        "hops": [{"node_id": 1, "hop_latency": 100}, {"node_id": 2, "hop_latency": 200}],
    }  # fmt: skip
    telemetry = frames_of(craft([report]))[0][42:]
    packet = sflow_make.raw(ethernet(ipv4(udp(bytes(40)))))
    flow = ipfix_make.FLOW
    sent = [
        (0, telemetry),
        (1, sflow_make.datagram(sflow_make.flow(packet, sflow_make.number(1039, 9000), rate=64))),
        (1, sflow_make.datagram(sflow_make.counters(sflow_make.interface(5, 0)), sequence=2, uptime=1000)),
        (
            1,
            sflow_make.datagram(sflow_make.counters(sflow_make.interface(5, 10**8)), sequence=3, uptime=2000),
        ),
        (1, b"damaged"),
        (2, ipfix_make.message(ipfix_make.set_of(2, ipfix_make.template(256, flow)))),
        (2, ipfix_make.message(ipfix_make.set_of(256, ipfix_make.record(packets=1000)))),
        (2, ipfix_make.packet_9(ipfix_make.set_of(256, ipfix_make.record()))),
    ]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for place, datagram in sent:
            sender.sendto(datagram, ("127.0.0.1", ports[place]))
            eventually(worker.turn)
    worker.drain()
    counters = pipeline.counted
    flows = pipeline.detection.tables["flows"]["flows"]
    live = flows[flows["flow_id"] != 0]
    assert [int(one) for one in live["packets"]] == [1 + 64 + 1000]
    worker.close()
    assert counters["frames_total"] == len(sent)
    assert counters["rejected_reports_total.truncated"] == 1
    assert counters["sflow_samples_total.flow"] == 1
    assert counters["sflow_samples_total.counter"] == 2
    assert counters["ipfix_records_total.flow"] == 1
    assert (counters["ipfix_early_sets_total"], counters["ipfix_waiting_sets"]) == (1, 1)
    assert counters["lost_reports"] == 0
    events = read_journals(tmp_path)
    paths = events[(events["kind"] == Kind.FLOW_RECORD) & (events["metric"] == Metric.FLOW_PATH)]
    assert [one["path"][: one["hop_count"]].tolist() for one in paths] == [[1, 2]]
    latencies = events[(events["metric"] == Metric.HOP_LATENCY) & (events["node_id"] == 2)]
    assert latencies["value"].tolist() == [200, (200 + 9000) // 2]
    ports = events[(events["metric"] == Metric.LINK_UTILIZATION) & (events["node_id"] == 2)]
    assert (ports["port"].tolist(), ports["value"].tolist()) == ([5], [800])


def test_exporters_connect(tmp_path: Path) -> None:
    """A worker takes messages of a connection, and forgets its templates when it ends."""
    settings = Settings.model_validate(
        {**SETTINGS.model_dump(), "listen": [{"kind": "ipfix+tcp", "port": 0, "nodes": {"127.0.0.1": 9}}]}
    )
    mode = Collector(settings)
    pipeline = mode.pipeline(Shard(settings.history, 0, data=tmp_path))
    listener = listener_of(settings.listen[0], 0)
    assert isinstance(listener, TcpListener)
    listener.open()
    worker = Worker(pipeline)
    worker.receivers.append(Receiver(listener, dialects_of(settings.listen[0], mode), print))
    counters = pipeline.counted

    def turned() -> bool:
        worker.turn()
        return int(counters["frames_total"]) >= wanted

    template = ipfix_make.set_of(2, ipfix_make.template(256, ipfix_make.FLOW))
    data = ipfix_make.set_of(256, ipfix_make.record(packets=1000))
    for wanted, sent in ((2, template + data), (3, data)):
        with socket.create_connection(("127.0.0.1", listener.port)) as exporter:
            messages = [sent[: len(template)], sent[len(template) :]] if wanted == 2 else [sent]
            exporter.sendall(b"".join(map(ipfix_make.message, messages)))
            eventually(turned)
    worker.drain()
    assert counters["ipfix_records_total.flow"] == 1
    assert (counters["ipfix_early_sets_total"], counters["ipfix_connections_total"]) == (1, 2)
    flows = pipeline.detection.tables["flows"]["flows"]
    assert [int(one["packets"]) for one in flows[flows["flow_id"] != 0]] == [1000]
    worker.close()


def test_kernels_are_loaded_before_datagrams_wait() -> None:
    """A collector loads those of the sources that it has."""
    assert {"sflow", "ipfix", "listener"} < set(steps_for(SETTINGS))
    tcp = Settings.model_validate({"listen": [{"kind": "ipfix+tcp"}, {"kind": "ipfix"}]})
    assert {"ipfix", "listener"} < set(steps_for(tcp))
    only = Settings.model_validate({"listen": [{"kind": "sflow"}]})
    assert "ipfix" not in steps_for(only)
    assert only.listen[0].port == 6343
