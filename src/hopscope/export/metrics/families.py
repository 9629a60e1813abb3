"""Counters and state as families of metrics, for `/metrics` and for pushing (`sender`).

A label is a worker, a reason, a kind, a switch, a port, a queue or a source; a flow only if top flows are
enabled. A family has at most `SERIES` series, so the cardinality stays bounded however many switches report.
A storm of reports about made-up sources or switches fills the tables with rows that differ at each scrape.
Therefore, if many rows have few samples, these rows get no series, and a database does not get thousands of
new ones.

Histograms have a bucket for each octave. A bin of the distributions counts in the first bucket that contains
it completely, which is exact for logarithmic bins, since their edges include the buckets' edges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from ...base.names import Names
from ...base.process import control_client as control
from ...base.version import VERSION
from ...control.counters import CONTROL_COUNTERS
from ...control.status import read_status
from ...detect.counters import COUNTERS, INDEX
from ...detect.distributions.quantiles import VIEWS, Distribution, grouped
from ...detect.records import NO_NODE, NO_PORT, Metric, PortKind
from ...detect.sink.records import Measure
from ...direct.counters import TRANSLATOR_COUNTERS
from ...history.counters import HISTORY_COUNTERS
from ...history.files.names import damaged_files
from ...labels.counters import LABEL_COUNTERS
from ...labels.state import NEVER
from ...memory.counter_region import CounterFile
from ...naming.counters import NAMES_COUNTERS
from ...naming.interfaces import COUNTER_NAMES, read_interfaces
from ...present.collector_state import CollectorState
from ...present.processes import processes_of
from ...rdma.counters import NIC_COUNTERS
from ...settings.serve import TopFlowSettings
from ...wire.address import address
from ...wire.records import Records
from ..counters import EXPORTS, LOST, names_of, read_counters
from .exemplars import Exemplars, Shown

SERIES = 5000
"""Maximum number of series in a family about switches or sources; those with the most samples are kept."""
STEADY, FLEETING = 8, 1000
"""If more than FLEETING rows have fewer than STEADY samples, such rows get no series. In `fair_kernel` they
are the first to be replaced.
"""
BUCKETS = np.array([2**octave - 1 for octave in range(8, 35)], np.uint64)
"""Upper edges of the buckets of a latency, ns: from 256 ns to 17 s."""
PERCENTILES = {"50": 0.5, "90": 0.9, "99": 0.99, "100": 1.0}
Single = CounterMetricFamily | GaugeMetricFamily
"""Families with a single value for each set of labels."""
Family = Single | HistogramMetricFamily

_PORT_FAMILIES = (
    ("link_utilization", "Latest utilisation of a port's link, as the source sends it.", PortKind.EGRESS, 0),
    ("queue_occupancy", "Latest occupancy of a queue, as the source sends it.", PortKind.QUEUE, 0),
    ("queue_congestion", "Latest congestion status of a queue (INT 0.5).", PortKind.QUEUE, 1),
    ("buffer_occupancy", "Latest occupancy of a buffer, as the source sends it.", PortKind.BUFFER, 0),
)

_SOURCE_FAMILIES = {
    "received_reports_total": "Reports of a source.",
    "duplicate_reports_total": "Reports of a source with a sequence number seen before.",
    "reordered_reports_total": "Reports of a source that came after one with a higher sequence number.",
    "lost_reports": "Reports of a source missing by sequence number, less those that came late.",
    "moved_reports": "Reports of a source that other members of the cluster received; not lost.",
}
"""By metric; the first word is the field of the row."""
_PORT_LABELS = ("node", "node_name", "port", "port_name")
_LABEL_ALARMS = {"label_silent_ports": Metric.LABEL_AGE, "label_coverage_low": Metric.LABEL_COVERAGE}
"""Counters of labels whose value is the number of alarms of a metric."""
_LABEL_FAMILIES = {
    "labels_total": "Labels of an egress port.",
    "late_labels_total": "Of these, overtaken by a newer one.",
    "age_seconds": "Time since its newest label arrived.",
    "latency_seconds": "Latency of the packet with its newest label in the switch.",
    "occupancy_bytes": "Its queue then.",
    "shift": "Reg2: it labels every T / 2^S; in the one-bit form 1 means every packet.",
    "silent": "1 if it is silent: its alarm is raised.",
}


_INTERFACE_TEXTS = {
    "in_bytes": "Bytes that an interface received, as its device counts them.",
    "out_bytes": "Bytes that an interface sent, as its device counts them.",
    "in_errors": "Packets that an interface received with errors.",
    "out_errors": "Packets that an interface could not send because of errors.",
    "in_discards": "Packets that an interface received and discarded without an error.",
    "out_discards": "Packets that an interface discarded before they were sent, as for lack of buffers.",
}


class Families(Collector):
    """All metrics of a collector, from snapshots taken on demand.

    `stores` is the folder of a translator or a software NIC, `top` says which flows get their own series,
    `more` has counters of processes that this package does not know.
    """

    def __init__(
        self,
        state: CollectorState,
        names: Names,
        folder: Path,
        stores: Path,
        top: TopFlowSettings | None = None,
        more: Sequence[CounterFile] = (),
    ) -> None:
        self._state, self._names, self._folder, self._stores = state, names, folder, stores
        self._top = top or TopFlowSettings()
        self._more = more
        self._left_out = 0

    def describe(self) -> Iterable[Family]:
        """Empty, since the metrics depend on the moment."""
        return ()

    def collect(self) -> Iterable[Family]:
        """Every family, from snapshots taken now."""
        build = _family("build_info", "Version of Hopscope.", "version")
        build.add_metric([VERSION], 1)
        yield build
        yield from self._counters()
        yield from self._processes()
        yield from self._tables()
        yield GaugeMetricFamily(
            "hopscope_history_damaged_files", "Damaged files of history, set aside.",
            value=len(damaged_files(self._folder)),
        )  # fmt: skip
        yield from self._exports()
        yield from _of_file(TRANSLATOR_COUNTERS, self._stores)
        yield from _of_file(LABEL_COUNTERS, self._state.regions)
        yield from _of_file(NIC_COUNTERS, self._stores)
        yield from _of_file(NAMES_COUNTERS, self._state.regions)
        for file in (HISTORY_COUNTERS, CONTROL_COUNTERS, *self._more):
            yield from _of_file(file, self._state.regions)
        yield from self._switches()

    def _switches(self) -> Iterable[Family]:
        """Switches that the controller reaches; empty if the settings have none."""
        labels = ["switch", "node", "kind"]
        up = _family("switch_up", "1 if the controller reaches the switch and may change it.", *labels)
        in_sync = _family("switch_in_sync", "1 if the switch does what is asked of it.", *labels)
        failures = _family(
            "switch_failures_total",
            "Attempts to reach or change the switch that failed; each is repeated.",
            *labels,
        )
        for switch in read_status(self._state.regions):
            place = [switch["name"], str(switch["node"]), switch["kind"]]
            up.add_metric(place, int(switch["state"] == "up"))
            in_sync.add_metric(place, int(switch["in_sync"]))
            failures.add_metric(place, switch["counts"]["failures"])
        if up.samples:
            yield from (up, in_sync, failures)

    def _counters(self) -> Iterable[Family]:
        counts = self._state.counters()
        families: dict[str, Single] = {}
        for counter in COUNTERS:
            name = counter.metric
            labels = ["worker", *([counter.label[0]] if counter.label else [])]
            form = GaugeMetricFamily if counter.gauge else CounterMetricFamily
            family = families.setdefault(name, form(name, counter.help, labels=labels))
            for process, block in sorted(counts.processes.items()):
                values = [process, *([counter.label[1]] if counter.label else [])]
                family.add_metric(values, counter.exposed(int(block[INDEX[counter.key]])))
        if self._state.labels.about() is not None:
            counted = LABEL_COUNTERS.read(self._state.regions)
            for key, metric in _LABEL_ALARMS.items():
                families["hopscope_alarms"].add_metric(["labels", metric.label], counted[key])
        yield from families.values()
        yield GaugeMetricFamily(
            "hopscope_workers", "Workers that have counters.", value=len(self._state.workers())
        )

    def _processes(self) -> Iterable[Family]:
        try:
            found = control.request(self._folder, {"status": {}}, timeout=0.5)["processes"]
        except (control.ControlError, KeyError):
            return
        up = _family("process_up", "1 if the process runs.", "process")
        restarts = _family("process_restarts_total", "Restarts of a process.", "process")
        cpu = _family(
            "process_cpu_seconds_total",
            "Time that the process has spent on processors, since its last start.",
            "process",
        )
        memory = _family(
            "process_resident_memory_bytes",
            "Resident memory of the process; memory that processes share counts in each.",
            "process",
        )
        for process in processes_of(found):
            up.add_metric([process.name], int(process.alive))
            restarts.add_metric([process.name], process.restarts)
            if process.cpu_seconds is not None and process.memory_bytes is not None:
                cpu.add_metric([process.name], process.cpu_seconds)
                memory.add_metric([process.name], process.memory_bytes)
        yield up
        yield restarts
        yield cpu
        yield memory

    def _tables(self) -> Iterable[Family]:
        flows, ports = self._state.flows(), self._state.ports()
        yield GaugeMetricFamily("hopscope_flows", "Live flows.", value=len(flows))
        yield _flow_latency(flows)
        yield from _top_flows(flows, self._top)
        yield from self._latencies()
        yield self._drops(self._bounded(ports[ports["drops"] > 0], "drops"))
        for name, text, kind, slot in _PORT_FAMILIES:
            rows = ports[(ports["kind"] == kind) & (ports["state"] >> slot & 1 == 1)]
            yield from self._of_ports(name, text, self._bounded(rows, "samples"), slot)
        yield from self._sources(self._state.sources())
        yield from self._labels()
        yield from self._interfaces(self._bounded(read_interfaces(self._state.regions), "last_ns"))
        yield GaugeMetricFamily(
            "hopscope_series_left_out",
            f"Rows without series: a family has at most {SERIES}, and none of rows with few samples if these "
            "are many.",
            value=self._left_out,
        )

    def _bounded(self, rows: Records, count: str) -> Records:
        """The rows that get series; `count` is the field that counts their samples. For interfaces, which no
        report can make up, it is the time of the last answer.
        """
        kept = rows
        if np.count_nonzero(rows[count] < STEADY) > FLEETING:
            kept = rows[rows[count] >= STEADY]
        if len(kept) > SERIES:
            kept = kept[np.argpartition(kept[count], len(kept) - SERIES)[-SERIES:]]
        self._left_out += len(rows) - len(kept)
        return kept

    def _latencies(self) -> Iterable[Family]:
        parts = self._state.distributions()
        exemplars = Exemplars(self._state.newest_events(), BUCKETS) if parts else None
        end_to_end = HistogramMetricFamily(
            "hopscope_end_to_end_latency_seconds", "Sum of the hop latencies of a packet, of all packets."
        )
        for each in grouped(parts, "network"):
            if each.measure == Measure.END_TO_END:
                slow = exemplars.of(Metric.FLOW_LATENCY) if exemplars else ()
                end_to_end.add_metric([], _buckets(each, slow), each.sum / 1e9)
        yield end_to_end
        labels = ["node", "node_name", "port", "queue"]
        hops = HistogramMetricFamily(
            "hopscope_hop_latency_seconds",
            "Latency of a hop, of all packets; without queue or port if there are too many.",
            labels=labels,
        )
        parts = [each for each in parts if each.measure == Measure.HOP_LATENCY and each.node is not None]
        places: list[Distribution] = []
        for view in VIEWS[:-1]:
            places = grouped(parts, view)
            if len(places) * (len(BUCKETS) + 3) <= SERIES:
                break
        kept = places[: SERIES // (len(BUCKETS) + 3)]
        self._left_out += len(places) - len(kept)
        queues = Counter((each.node, each.port) for each in places)
        for each in kept:
            name = self._names.node(each.node or 0) or ""
            values = [str(each.node), name, *("" if n is None else str(n) for n in (each.port, each.queue))]
            shown: Shown = ()
            known = each.port is not None or view == "switch"
            if exemplars and known and queues[each.node, each.port] == 1:  # events do not have the queue
                shown = exemplars.of(Metric.HOP_LATENCY, each.node, each.port)
            hops.add_metric(values, _buckets(each, shown), each.sum / 1e9)
        yield hops

    def _place(self, node: int, port: int | None) -> list[str]:
        """Values of _PORT_LABELS."""
        named = ("", "") if port is None else (str(port), self._names.port(node, port) or "")
        return [str(node), self._names.node(node) or "", *named]

    def _drops(self, rows: Records) -> Family:
        family = _family(
            "drops_total",
            "Drop reports of an egress port, since it was last idle; without port if it is unknown.",
            *_PORT_LABELS,
        )
        for row in rows:
            node, port = int(row["node_id"]), int(row["ident"])
            family.add_metric(self._place(node, None if port == NO_PORT else port), int(row["drops"]))
        return family

    def _of_ports(self, name: str, text: str, rows: Records, slot: int) -> Iterable[Family]:
        what = name.partition("_")[0].replace("link", "port")
        labels = ["node", "node_name", what, *(["port_name"] if what == "port" else ["port"])]
        latest = _family(name, text, *labels)
        highest = _family(f"{name}_highest", f"{text} Highest since the last push.", *labels)
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
        families = {
            name.partition("_")[0]: _family(f"source_{name}", text, *labels)
            for name, text in _SOURCE_FAMILIES.items()
        }
        silent = _family("source_silent", "1 if the source is silent.", *labels)
        kept = self._bounded(rows, "received")
        for row in kept:
            node = "" if row["node_id"] == NO_NODE else str(row["node_id"])
            values = [address(int(row["source_hi"]), int(row["source_lo"])), node, str(row["hw_id"])]
            for field, family in families.items():
                family.add_metric(values, int(row[field]))
            silent.add_metric(values, int(bool(row["silent"])))
        yield from families.values()
        yield silent
        others = _family(
            "other_sources",
            "Sums over the sources without series of their own, and the number of them: gauges, since such "
            "sources come and go.",
            "what",
        )
        others.add_metric(["sources"], len(rows) - len(kept))
        for field in ("silent", *families):
            what = field if field == "silent" else f"{field}_reports"
            others.add_metric([what], int(rows[field].sum()) - int(kept[field].sum()))
        yield others

    def _labels(self) -> Iterable[Family]:
        """Ports that label (INT-label)."""
        if self._state.labels.about() is None:
            return
        now, rows = self._state.labels.copy()
        families = {
            name: _family(f"label_port_{name}", text, *_PORT_LABELS) for name, text in _LABEL_FAMILIES.items()
        }
        for row in self._bounded(rows, "labels"):
            node, port = int(row["node_id"]), int(row["port"])
            place = self._place(node, port)
            values: dict[str, float] = {
                "labels_total": int(row["labels"]),
                "late_labels_total": int(row["late"]),
            }
            values |= {"shift": int(row["shift"]), "silent": int(row["silent"])}
            if int(row["received_ns"]) != NEVER:
                values["age_seconds"] = max(0, now - int(row["received_ns"])) / 1e9
                values["latency_seconds"] = int(row["latency_ns"]) / 1e9
                values["occupancy_bytes"] = int(row["occupancy"])
            for name, value in values.items():
                families[name].add_metric(place, value)
        yield from families.values()
        coverage = _family("label_coverage_ratio", "Mean coverage of labels over the last ten seconds.")
        if (mean := self._state.labels.mean_coverage()) is not None:
            coverage.add_metric([], mean)
        yield coverage

    def _interfaces(self, rows: Records) -> Iterable[Family]:
        """Counters that devices returned by SNMP or gNMI; empty if no device is polled."""
        if not len(rows):
            return
        for bit, name in enumerate(COUNTER_NAMES):
            family = _family(f"interface_{name}_total", _INTERFACE_TEXTS[name], *_PORT_LABELS)
            for row in rows[rows["known"] >> bit & 1 == 1]:
                node, port = int(row["node_id"]), int(row["port"])
                family.add_metric(self._place(node, port), int(row[name]))
            yield family

    def _exports(self) -> Iterable[Family]:
        rows = read_counters(self._folder)
        named = list(zip(names_of(rows), rows, strict=True))
        up = _family("export_up", "1 if the last delivery succeeded.", "destination")
        for label, row in named:
            up.add_metric([label], int(row["ok"]))
        yield up
        for name, text in EXPORTS:
            family = _family(f"export_{name}", text, "destination")
            for label, row in named:
                family.add_metric([label], int(row[name]))
            yield family
        lost = _family(
            "export_lost_total",
            "Events, or samples of metrics, that did not reach a destination, by reason.",
            "destination",
            "reason",
        )
        for label, row in named:
            for name, reason, _ in LOST:
                lost.add_metric([label, reason], int(row[name]))
        yield lost


def _family(name: str, text: str, *labels: str) -> Single:
    """A family without samples: a counter if the name says so (`_total`), otherwise a gauge."""
    form = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
    return form(f"hopscope_{name}", text, labels=labels)


def _buckets(one: Distribution, exemplars: Shown) -> list[Any]:
    """Cumulative counts by upper edge (seconds, as text), with an exemplar if available."""
    order = np.argsort(one.upper, kind="stable")
    below = np.append(np.uint64(0), np.cumsum(one.counts[order]))
    ends = np.searchsorted(one.upper[order], BUCKETS, side="right")
    found = [(repr(int(edge) / 1e9), int(below[end])) for edge, end in zip(BUCKETS, ends, strict=True)]
    found.append(("+Inf", one.count))
    return [(*bucket, exemplar) if exemplar else bucket for bucket, exemplar in zip_longest(found, exemplars)]


def _flow_latency(flows: Records) -> Family:
    family = _family(
        "flow_latency_seconds",
        "Percentiles of the live flows' mean latencies; 100 is the highest.",
        "percentile",
    )
    known = flows[flows["latency_samples"] > 0]
    if len(known):
        means = known["latency_sum"] / known["latency_samples"]
        for name, value in zip(PERCENTILES, np.quantile(means, list(PERCENTILES.values())), strict=True):
            family.add_metric([name], float(value) / 1e9)
    return family


def _top_flows(flows: Records, top: TopFlowSettings) -> Iterable[Family]:
    """The highest flows by a measure; off by default, since each new flow is a new series."""
    labels = ["flow", "src", "dst", "sport", "dport", "proto"]
    latency = _family("top_flow_latency_seconds", "Mean latency of one of the top flows.", *labels)
    packets = _family("top_flow_packets_total", "Packets of one of the top flows.", *labels)
    means = flows["latency_sum"] / np.maximum(flows["latency_samples"], 1)
    by = flows["packets"] if top.by == "packets" else means
    for at in np.argsort(by, kind="stable")[::-1][: top.count]:
        row = flows[at]
        sides = (address(int(row[f"{side}_hi"]), int(row[f"{side}_lo"])) for side in ("src", "dst"))
        numbers = (str(row[name]) for name in ("sport", "dport", "proto"))
        values = [f"{int(row['flow_id']):016x}", *sides, *numbers]
        packets.add_metric(values, int(row["packets"]))
        if row["latency_samples"]:
            latency.add_metric(values, float(means[at]) / 1e9)
    yield latency
    yield packets


def _of_file(file: CounterFile, folder: Path) -> Iterable[Family]:
    """The counters in a file; empty if all are zero, which means that the process never ran."""
    counts = file.read(folder)
    if not any(counts.values()):
        return
    families: dict[str, Single] = {}
    for counter in file.counters:
        form = GaugeMetricFamily if counter.gauge else CounterMetricFamily
        name, labels = counter.metric, [counter.label[0]] if counter.label else []
        family = families.setdefault(name, form(name, counter.help, labels=labels))
        family.add_metric([counter.label[1]] if counter.label else [], counter.exposed(counts[counter.key]))
    yield from families.values()
