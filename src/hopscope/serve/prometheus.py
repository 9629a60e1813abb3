"""`/metrics`: counters and state as Prometheus reads them, collected when it asks.

A label is a worker, a reason, a kind, a switch, a port, a queue or a source, never a flow; a family has at
most `SERIES` series, so the cardinality stays bounded however many switches report.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from ..base import control_client as control
from ..base.counter import Counter
from ..base.names import Names
from ..base.version import VERSION
from ..detect.counters import COUNTERS, INDEX
from ..detect.records import NO_NODE, PortKind
from ..direct import counters as translator
from ..export.counters import ALERTS, EXPORTS, LOST, labels_of, read_counters
from ..labels import counters as labels
from ..present.collector_state import CollectorState
from ..rdma import counters as nic
from ..wire.address import address
from ..wire.records import Records

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SERIES = 5000
"""Most series of one family about switches or sources; those heard of last are kept."""
Family = CounterMetricFamily | GaugeMetricFamily

_PORT_FAMILIES = (
    (
        "link_utilization",
        "Latest utilisation of a port's link, as the source sends it.",
        PortKind.EGRESS,
        0,
    ),
    ("queue_occupancy", "Latest occupancy of a queue, as the source sends it.", PortKind.QUEUE, 0),
    ("queue_congestion", "Latest congestion status of a queue (INT 0.5).", PortKind.QUEUE, 1),
    ("buffer_occupancy", "Latest occupancy of a buffer, as the source sends it.", PortKind.BUFFER, 0),
)


def render(state: CollectorState, names: Names, folder: Path, stores: Path) -> bytes:
    """The whole exposition, text format 0.0.4; `stores` is the folder of a translator or a software NIC."""
    registry = CollectorRegistry()
    registry.register(_Scrape(state, names, folder, stores))
    return generate_latest(registry)


class _Scrape(Collector):
    def __init__(self, state: CollectorState, names: Names, folder: Path, stores: Path) -> None:
        self._state, self._names, self._folder, self._stores = state, names, folder, stores
        self._left_out = 0

    def describe(self) -> Iterable[Family]:
        """Nothing: the metrics depend on the moment."""
        return ()

    def collect(self) -> Iterable[Family]:
        """Every family, from snapshots taken now."""
        build = GaugeMetricFamily("hopscope_build_info", "Version of Hopscope.", labels=["version"])
        build.add_metric([VERSION], 1)
        yield build
        yield from self._counters()
        yield from self._processes()
        yield from self._tables()
        yield from self._exports()
        yield from _of_direct(translator.COUNTERS, translator.read_counters(self._stores))
        yield from _of_direct(labels.COUNTERS, labels.read_label_counters(self._folder / "regions"))
        yield from _of_direct(nic.NIC_COUNTERS, nic.read_nic_counters(self._stores))

    def _counters(self) -> Iterable[Family]:
        counts = self._state.counters()
        families: dict[str, Family] = {}
        for counter in COUNTERS:
            name = counter.metric
            labels = ["worker", *([counter.label[0]] if counter.label else [])]
            form = GaugeMetricFamily if counter.gauge else CounterMetricFamily
            family = families.setdefault(name, form(name, counter.help, labels=labels))
            for worker, block in sorted(counts.workers.items()):
                values = [str(worker), *([counter.label[1]] if counter.label else [])]
                family.add_metric(values, counter.exposed(int(block[INDEX[counter.key]])))
        yield from families.values()
        yield GaugeMetricFamily("hopscope_workers", "Workers that have counters.", value=len(counts.workers))

    def _processes(self) -> Iterable[Family]:
        try:
            processes = control.request(self._folder, {"status": {}}, timeout=0.5)["processes"]
        except (control.ControlError, KeyError):
            return
        up = GaugeMetricFamily("hopscope_process_up", "1 if the process runs.", labels=["process"])
        restarts = CounterMetricFamily(
            "hopscope_process_restarts_total", "Restarts of a process.", labels=["process"]
        )
        for process in processes:
            up.add_metric([process["name"]], int(process["alive"]))
            restarts.add_metric([process["name"]], process["restarts"])
        yield up
        yield restarts

    def _tables(self) -> Iterable[Family]:
        yield GaugeMetricFamily("hopscope_flows", "Live flows.", value=len(self._state.flows()))
        ports = self._state.ports()
        for name, text, kind, slot in _PORT_FAMILIES:
            rows = ports[(ports["kind"] == kind) & (ports["state"] >> slot & 1 == 1)]
            yield from self._of_ports(name, text, self._bounded(rows), slot)
        yield from self._sources(self._bounded(self._state.sources()))
        yield GaugeMetricFamily(
            "hopscope_series_left_out",
            f"Series that this exposition leaves out, since a family has at most {SERIES}.",
            value=self._left_out,
        )

    def _bounded(self, rows: Records) -> Records:
        if len(rows) <= SERIES:
            return rows
        self._left_out += len(rows) - SERIES
        return rows[np.argpartition(rows["last_ns"], len(rows) - SERIES)[-SERIES:]]

    def _of_ports(self, name: str, text: str, rows: Records, slot: int) -> Iterable[Family]:
        what = name.partition("_")[0].replace("link", "port")
        labels = ["node", "node_name", what, *(["port_name"] if what == "port" else ["port"])]
        latest = GaugeMetricFamily(f"hopscope_{name}", text, labels=labels)
        highest = GaugeMetricFamily(
            f"hopscope_{name}_highest", f"{text} Highest since the last push.", labels=labels
        )
        for row in rows:
            node, ident, port = int(row["node_id"]), int(row["ident"]), int(row["port"])
            last = (self._names.port(node, ident) or "") if what == "port" else str(port)
            values = [str(node), self._names.node(node) or "", str(ident), last]
            latest.add_metric(values, int(row["latest"][slot]))
            highest.add_metric(values, int(row["highest"][slot]))
        yield latest
        yield highest

    def _sources(self, rows: Records) -> Iterable[Family]:
        labels = ["source", "node", "hw_id"]
        families: dict[str, Family] = {
            field: CounterMetricFamily(f"hopscope_source_{field}_reports_total", text, labels=labels)
            for field, text in (
                ("received", "Reports of a source."),
                ("duplicate", "Reports of a source with a sequence number seen before."),
                ("reordered", "Reports of a source that came after one with a higher sequence number."),
            )
        }
        families["lost"] = GaugeMetricFamily(
            "hopscope_source_lost_reports",
            "Reports of a source missing by sequence number, less those that came late.",
            labels=labels,
        )
        silent = GaugeMetricFamily("hopscope_source_silent", "1 if the source is silent.", labels=labels)
        for row in rows:
            node = "" if row["node_id"] == NO_NODE else str(row["node_id"])
            values = [address(int(row["source_hi"]), int(row["source_lo"])), node, str(row["hw_id"])]
            for field, family in families.items():
                family.add_metric(values, int(row[field]))
            silent.add_metric(values, int(bool(row["silent"])))
        yield from families.values()
        yield silent

    def _exports(self) -> Iterable[Family]:
        rows = read_counters(self._folder)
        hooks = rows["kind"] == b"webhook"
        for name, text in ALERTS:
            family = CounterMetricFamily(f"hopscope_alerts_{name}", text, labels=["webhook"])
            for at, row in enumerate(rows[hooks]):
                family.add_metric([str(at)], int(row[name]))
            yield family
        named = list(zip(labels_of(rows), rows, strict=True))
        up = GaugeMetricFamily(
            "hopscope_export_up",
            "1 if the last delivery succeeded.",
            labels=["destination"],
        )
        for label, row in named:
            up.add_metric([label], int(row["ok"]))
        yield up
        others = [(label, row) for (label, row), hook in zip(named, hooks, strict=True) if not hook]
        for name, text in EXPORTS:
            family = CounterMetricFamily(f"hopscope_export_{name}", text, labels=["destination"])
            for label, row in others:
                family.add_metric([label], int(row[name]))
            yield family
        lost = CounterMetricFamily(
            "hopscope_export_lost_total",
            "Events and evictions that did not reach a destination, by reason.",
            labels=["destination", "reason"],
        )
        for label, row in others:
            for name, reason, _ in LOST:
                lost.add_metric([label, reason], int(row[name]))
        yield lost


def _of_direct(counters: Iterable[Counter], values: npt.NDArray[np.uint64]) -> Iterable[Family]:
    """Counters of a translator, a software NIC or labels; none where all are zero, as where it never ran."""
    if not values.any():
        return
    families: dict[str, Family] = {}
    for counter, value in zip(counters, values.tolist(), strict=True):
        form = GaugeMetricFamily if counter.gauge else CounterMetricFamily
        name, labels = counter.metric, [counter.label[0]] if counter.label else []
        family = families.setdefault(name, form(name, counter.help, labels=labels))
        family.add_metric([counter.label[1]] if counter.label else [], counter.exposed(value))
    yield from families.values()
