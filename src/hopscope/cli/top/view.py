"""What `hopscope top` shows: rates, slowest flows, fullest queues, recent events, as Rich tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ...base.names import Names
from ...detect.counters import INDEX
from ...detect.records import EVENT, EVENT_VERSION, NO_NODE, NO_PORT, Kind, Metric, PortKind
from ...export.counters import labels_of, lost_of, read_counters
from ...memory.data_folder import read_owner
from ...memory.region import RegionError
from ...memory.ring import RingReader, attach_ring
from ...present.collector_state import CollectorState
from ...present.events import long_paths, unit
from ...present.select import EventFilter
from ...present.units import flow_text
from ...runtime.summary import LOST
from ...wire.address import address
from ...wire.records import Records

RECENT = 4096
"""Newest events of each worker that are searched for matches."""
WORDS = ("path", "where", "flow", "switch", "port", "metric")
"""Columns of text; the others are numbers."""
ALARMING = {Kind.RAISED, Kind.THRESHOLD, Kind.LOOP, Kind.DROP, Kind.SILENT, Kind.GAP}


class TopView:
    """Draws the state of the collector on a data folder; reads regions and writes nothing."""

    def __init__(self, folder: Path, names: Names, wanted: EventFilter) -> None:
        self._folder = folder
        self._state = CollectorState(folder)
        self._names = names
        self._filter = wanted
        self._rings: dict[str, RecentReader] = {}
        self._paths: dict[tuple[int, int], list[int]] = {}
        self._events: Records = np.empty(0, EVENT)

    @property
    def running(self) -> bool:
        """Whether a collector has workers on this folder."""
        return bool(self._state.workers())

    def draw(self, rows: int) -> RenderableType:
        """One frame; each table has at most `rows` rows."""
        if not self.running:
            return Text(f"no collector runs on {self._folder}", style="yellow")
        return Group(self._head(), self._counts(), self._flows(rows), self._queues(rows), self._feed(rows))

    def _head(self) -> Text:
        owner = read_owner(self._folder)
        listening = ", ".join(owner.get("listen", ())) or "replay"
        page = owner.get("api") or "no page"
        return Text(f"hopscope {owner.get('version')}  {listening}  {page}  {self._folder}", style="bold")

    def _counts(self) -> Table:
        now, rates = self._state.counters(), self._state.rates()
        table = _table("", "per second", "total")
        rows = {
            "reports": "reports_total",
            "hops": "hops_total",
            "bytes": "frame_bytes_total",
            "values": "values_total",
        }
        for name, key in rows.items():
            table.add_row(name, f"{rates[key]:,.0f}", f"{now[key]:,}")
        for name, family in (("events", "events_total."), ("rejected", "rejected_reports_total.")):
            total = sum(now[key] for key in INDEX if key.startswith(family))
            rate = sum(rates[key] for key in INDEX if key.startswith(family))
            table.add_row(name, f"{rate:,.0f}", f"{total:,}", style=_red(name == "rejected" and total > 0))
        for key, meaning in LOST.items():
            if now[key] or key in ("lost_reports", "kernel_drops_total"):
                text = f"lost: {meaning.partition(',')[0]}"
                table.add_row(text, f"{rates[key]:,.0f}", f"{now[key]:,}", style=_red(now[key] > 0))
        busy = rates["busy_ns_total"] / 1e9 / max(len(now.processes), 1)
        per_report = rates["busy_ns_total"] / rates["reports_total"] if rates["reports_total"] else 0.0
        exports = read_counters(self._folder)
        for label, row in zip(labels_of(exports), exports, strict=True):
            lost, ok = lost_of(row), bool(row["ok"])
            sent = f"{int(row['sent_total']):,} sent" + ("" if ok else ", failing")
            table.add_row(label, f"{lost:,} lost" if lost else "", sent, style=_red(lost > 0 or not ok))
        table.add_row("workers busy", f"{busy:.0%}", f"{per_report:,.0f} ns per report" if per_report else "")
        return table

    def _flows(self, rows: int) -> Table:
        table = _table("slowest flows", "ns now", "ns mean", "reports", "path")
        flows = self._state.flows()
        known = flows["state"] & 2 != 0
        flows = flows[known if self._filter.flow is None else known & self._filter.flow.mask(flows)]
        for row in flows[np.argsort(-flows["latency_latest"].astype(np.int64))][: rows * 4]:
            nodes = self._state.hops_of(row)["node_id"].tolist()
            if self._filter.nodes and not set(nodes) & set(self._filter.nodes):
                continue
            if table.row_count == rows:
                break
            mean = int(row["latency_sum"]) // max(int(row["latency_samples"]), 1)
            table.add_row(
                _flow(row),
                f"{int(row['latency_latest']):,}",
                f"{mean:,}",
                f"{int(row['packets']):,}",
                self._names.path_label(nodes),
            )
        return table

    def _queues(self, rows: int) -> Table:
        table = _table("fullest queues", "now", "highest", "switch", "port")
        ports = self._state.ports()
        kept = np.isin(ports["kind"], [PortKind.QUEUE, PortKind.BUFFER])
        if self._filter.nodes:
            kept &= np.isin(ports["node_id"], self._filter.nodes)
        ports = ports[kept]
        for row in ports[np.argsort(-ports["highest"][:, 0].astype(np.int64), kind="stable")][:rows]:
            node, port = int(row["node_id"]), int(row["port"])
            table.add_row(
                f"{PortKind(int(row['kind'])).name.lower()} {int(row['ident'])}",
                f"{int(row['latest'][0]):,}",
                f"{int(row['highest'][0]):,}",
                self._names.node_label(node),
                "" if port == NO_PORT else self._names.port_label(node, port),
            )
        return table

    def _feed(self, rows: int) -> Table:
        self._read_rings()
        table = _table("recent events", "metric", "value", "before", "where", "flow")
        for row in self._events[::-1][:rows]:
            kind, node, port = Kind(int(row["kind"])), int(row["node_id"]), int(row["port"])
            where = "" if node == NO_NODE else self._names.node_label(node)
            if where and port != NO_PORT:
                where += f" · {self._names.port(node, port) or f'port {port}'}"
            metric = Metric(int(row["metric"]))
            if metric in (Metric.QUEUE_OCCUPANCY, Metric.QUEUE_CONGESTION):
                where += f" · queue {int(row['ident'])}"
            values = ("", "")
            if metric is Metric.FLOW_PATH:  # its value is a hash of the path
                nodes = self._paths.get((int(row["shard"]), int(row["sequence"])))
                where = self._names.path_label(nodes or row["path"][: int(row["hop_count"])].tolist())
            else:
                of = f" {unit(metric)}" if unit(metric) else ""
                values = (f"{int(row['value']):,}{of}", f"{int(row['previous']):,}{of}")
            table.add_row(
                kind.label,
                metric.label,
                *values,
                where,
                _flow(row) if row["flow_id"] else address(int(row["src_hi"]), int(row["src_lo"])),
                style="red" if kind in ALARMING else "",
            )
        return table

    def _read_rings(self) -> None:
        for path in sorted((self._folder / "regions").glob("worker-*.events")):
            reader = self._rings.get(path.name)
            if reader is None or not reader.current:
                try:
                    reader = self._rings[path.name] = RecentReader(path)
                except RegionError:
                    continue
            found = reader.recent()
            self._paths |= long_paths(found)
            found = found[self._filter.mask(found)]
            self._events = np.concatenate([self._events, found])[-RECENT:]
        if len(self._paths) > 4 * RECENT:
            kept = set(zip(self._events["shard"].tolist(), self._events["sequence"].tolist(), strict=True))
            self._paths = {key: path for key, path in self._paths.items() if key in kept}
        self._events = self._events[np.argsort(self._events["time_ns"], kind="stable")]


class RecentReader(RingReader):
    """Reader of one ring that skips what is too old to be shown."""

    def __init__(self, path: Path) -> None:
        self._region = attach_ring(path, EVENT_VERSION)
        super().__init__(self._region, "oldest")

    @property
    def current(self) -> bool:
        """Whether the ring is still the one under its name."""
        return self._region.is_current()

    def recent(self) -> Records:
        """The newest events since the last call, at most RECENT."""
        self.cursor = max(self.cursor, self.head - RECENT)
        return self.read(RECENT)[0]


def _table(first: str, *columns: str) -> Table:
    table = Table(box=None, pad_edge=False, expand=True, header_style="bold cyan")
    table.add_column(first, no_wrap=True, min_width=14, ratio=None if columns[0] == "metric" else 1)
    for column in columns:
        words = column in WORDS
        wide = column in ("path", "where", "flow")
        table.add_column(
            column,
            justify="left" if words else "right",
            no_wrap=True,
            min_width=16 if words else 12,
            ratio=1 if wide else None,
        )
    return table


def _flow(row: np.void) -> str:
    src, dst = (address(int(row[f"{side}_hi"]), int(row[f"{side}_lo"])) for side in ("src", "dst"))
    ports = {name: int(row[name]) for name in ("sport", "dport", "proto")}
    return flow_text({"src": src, "dst": dst, **ports})


def _red(alarming: bool) -> str:
    return "red" if alarming else ""
