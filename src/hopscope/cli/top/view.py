"""What `hopscope top` shows: rates, slowest flows, fullest queues, labels, recent events, as Rich tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ...base.names import Names
from ...detect.counters import INDEX
from ...detect.records import EVENT, EVENT_VERSION, NO_PORT, ROUTINE, Kind, PortKind
from ...export.counters import lost_of, names_of, read_counters
from ...labels.counters import LABEL_COUNTERS
from ...labels.state import NEVER
from ...memory.data_folder import read_owner
from ...memory.region import RegionError
from ...memory.ring import RingReader, attach_ring
from ...present.collector_state import CollectorState, CounterSnapshot, Rates
from ...present.events import ALARMING, event_cells, event_object, label, long_paths
from ...present.select import EventFilter, highest_flows
from ...present.units import duration, flow_text
from ...runtime.pipeline.summary import LOST
from ...wire.address import address
from ...wire.records import Records
from .screen import Screen

WORDS = ("path", "where", "flow", "switch", "port", "metric")
"""Columns of text; the others are numbers."""


def make_table(first: str, *columns: str) -> Table:
    """A table without frames; the heading of its first column is its title. A terminal of 80 columns is wide
    enough for both ends of an IPv4 flow.
    """
    table = Table(box=None, pad_edge=False, expand=True, header_style="bold cyan")
    table.add_column(first, no_wrap=True, min_width=14, ratio=None if columns[0] == "metric" else 2)
    for column in columns:
        words = column in WORDS
        wide = column in ("path", "where", "flow")
        table.add_column(
            column,
            justify="left" if words else "right",
            no_wrap=True,
            min_width=16 if words else 9,
            ratio=1 if wide else None,
        )
    return table


def red(alarming: bool) -> str:
    """Style of a row."""
    return "red" if alarming else ""


class LabelTables:
    """Rows and a table about the labels that a collector takes, if it takes any."""

    def __init__(self, state: CollectorState, names: Names) -> None:
        self._state, self._names = state, names

    @property
    def exist(self) -> bool:
        """Whether the collector takes labels."""
        return self._state.labels.about() is not None

    def add_counts(self, table: Table) -> None:
        """Add rows of (name, rate per second, total)."""
        ports = self._state.labels.ports()
        labels, silent = int(ports["labels"].sum()), int(np.count_nonzero(ports["silent"]))
        table.add_row("labels", f"{float(ports['rate'].sum()):,.0f}", f"{labels:,}")
        table.add_row("ports that label", "", f"{len(ports):,}")
        table.add_row("silent ports", "", f"{silent:,}", style=red(silent > 0))
        coverage = self._state.labels.mean_coverage()
        table.add_row("coverage, 10 s", "", "" if coverage is None else f"{coverage:.2%}")
        if lost := LABEL_COUNTERS.read(self._state.regions)["label_kernel_drops_total"]:
            table.add_row("lost: labels dropped by the kernel", "", f"{lost:,}", style="red")

    def ports(self, rows: int, nodes: tuple[int, ...]) -> Table:
        """Silent ports, then the ports with the highest latency."""
        table = make_table("ports that label", "latency", "queue bytes", "labels/s", "age", "port")
        now, found = self._state.labels.copy()
        if nodes:
            found = found[np.isin(found["node_id"], nodes)]
        order = np.lexsort((-found["latency_ns"].astype(np.int64), -found["silent"].astype(np.int8)))
        for row in found[order[:rows]]:
            node, port, received = int(row["node_id"]), int(row["port"]), int(row["received_ns"])
            known = received != NEVER
            table.add_row(
                self._names.node_label(node),
                duration(int(row["latency_ns"])) if known else "",
                f"{int(row['occupancy']):,}" if known else "",
                f"{float(row['rate']):,.0f}",
                duration(max(0, now - received)) if known else "never",
                self._names.port_label(node, port),
                style=red(bool(row["silent"])),
            )
        return table


RECENT = 4096
"""Number of newest events of each worker that are searched for matches."""


class TopView:
    """Draws the state of the collector on a data folder; reads regions and writes nothing."""

    def __init__(self, folder: Path, names: Names, screen: Screen) -> None:
        self._folder = folder
        self._state = CollectorState(folder)
        self._labels = LabelTables(self._state, names)
        self._names = names
        self._screen = screen
        self._rings: dict[str, RecentReader] = {}
        self._paths: dict[tuple[int, int], list[int]] = {}
        self._events: Records = np.empty(0, EVENT)
        self._notable: Records = np.empty(0, EVENT)

    @property
    def _filter(self) -> EventFilter:
        return self._screen.filter

    @property
    def running(self) -> bool:
        """Whether a collector takes reports or labels on this folder."""
        return bool(self._state.workers()) or self._labels.exist

    def draw(self, *, rows: int | None = None, height: int = 40) -> RenderableType:
        """One frame; each table has at most `rows` rows (None: as many as fit into `height` lines)."""
        if not self.running:
            return Text(f"no collector runs on {self._folder}", style="yellow")
        head, counts = self._head(), self._counts()
        each, nodes = rows, self._filter.nodes
        reports, labels = bool(self._state.workers()), self._labels.exist
        if each is None:  # the tables below the counters, with events, share the remaining lines
            below = 2 * reports + labels
            each = max(3, (height - counts.row_count - 3 - below) // (below + 1))
        tables = [counts]
        if reports:
            tables += [self._flows(each), self._queues(each)]
        if labels:
            tables.append(self._labels.ports(each, nodes))
        if rows is None:
            each = max(3, height - 2 - sum(table.row_count + 1 for table in tables))
        return Group(head, *tables, self._feed(each))

    def _head(self) -> Text:
        owner = read_owner(self._folder)
        labels = [f"labels on {owner['labels']}"] if owner.get("labels") else []
        listening = ", ".join([*owner.get("listen", ()), *labels]) or "replay"
        page = owner.get("api") or "no page"
        line = f"hopscope {owner.get('version')}  {listening}  {page}  {self._folder}"
        return Text(line, style="bold", no_wrap=True, overflow="ellipsis")

    def _counts(self) -> Table:
        now, rates = self._state.counters(), self._state.rates()
        table = make_table("", "per second", "total")
        if self._state.workers():
            self._add_reports(table, now, rates)
        if self._labels.exist:
            self._labels.add_counts(table)
        exports = read_counters(self._folder)
        for name, row in zip(names_of(exports), exports, strict=True):
            lost, ok = lost_of(row), bool(row["ok"])
            sent = f"{int(row['sent_total']):,} sent" + ("" if ok else ", failing")
            table.add_row(name, f"{lost:,} lost" if lost else "", sent, style=red(lost > 0 or not ok))
        return table

    def _add_reports(self, table: Table, now: CounterSnapshot, rates: Rates) -> None:
        """Rows about reports and workers."""
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
            table.add_row(name, f"{rate:,.0f}", f"{total:,}", style=red(name == "rejected" and total > 0))
        for key, meaning in LOST.items():
            if now[key] or key in ("lost_reports", "kernel_drops_total"):
                text = f"lost: {meaning.partition(',')[0]}"
                table.add_row(text, f"{rates[key]:,.0f}", f"{now[key]:,}", style=red(now[key] > 0))
        if moved := now["moved_reports_total"]:
            table.add_row(
                "moved: received by other members", f"{rates['moved_reports_total']:,.0f}", f"{moved:,}"
            )
        if (to_disk := self._state.to_disk()).failing:
            table.add_row("history: events wait for the disk", "", f"{to_disk.waiting:,}", style=red(True))
        busy = rates["busy_ns_total"] / 1e9 / max(len(now.processes), 1)
        per_report = rates["busy_ns_total"] / rates["reports_total"] if rates["reports_total"] else 0.0
        table.add_row("workers busy", f"{busy:.0%}", f"{per_report:,.0f} ns per report" if per_report else "")

    def _flows(self, rows: int) -> Table:
        title = "slowest flows" if self._screen.order == "latency" else f"flows by {self._screen.order}"
        table = make_table(title, "latency", "mean", "reports", "path")
        flows = self._state.flows()
        known = flows["state"] & 2 != 0
        flows = flows[known if self._filter.flow is None else known & self._filter.flow.mask(flows)]
        for row in highest_flows(flows, self._screen.order, rows * 4):
            nodes = self._state.hops_of(row)["node_id"].tolist()
            if self._filter.nodes and not set(nodes) & set(self._filter.nodes):
                continue
            if table.row_count == rows:
                break
            mean = int(row["latency_sum"]) // max(int(row["latency_samples"]), 1)
            table.add_row(
                _flow(row),
                duration(int(row["latency_latest"])),
                duration(mean),
                f"{int(row['packets']):,}",
                self._names.path_label(nodes),
                style=red(bool(row["alarm"])),
            )
        return table

    def _queues(self, rows: int) -> Table:
        table = make_table("fullest queues", "now", "highest", "switch", "port")
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
                style=red(bool(row["alarm"])),
            )
        return table

    def _feed(self, rows: int) -> Table:
        self._read_rings()
        shown = self._screen.all_events or bool(self._filter.kinds)
        title = "recent events" if shown else "notable events"
        table = make_table(title, "metric", "value", "before", "where", "flow")
        events = self._events if shown else self._notable
        for row in events[self._filter.mask(events)][::-1][:rows]:
            event = event_object(row, self._names, self._paths)
            cells = event_cells(event)
            table.add_row(
                event["kind"],
                *(cells[name] or "" for name in ("metric", "value", "previous")),
                cells["path"] or _where(event),
                cells["flow"] or "",
                style="red" if row["kind"] in ALARMING else "green" if row["kind"] == Kind.CLEARED else "",
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
            self._events = _joined(self._events, found)
            self._notable = _joined(self._notable, found[~np.isin(found["kind"], ROUTINE)])
        if len(self._paths) > 4 * RECENT:
            both = np.concatenate([self._events, self._notable])
            kept = set(zip(both["shard"].tolist(), both["sequence"].tolist(), strict=True))
            self._paths = {key: path for key, path in self._paths.items() if key in kept}


class RecentReader(RingReader):
    """Reader of one ring that skips events too old to be shown."""

    def __init__(self, path: Path) -> None:
        self._region = attach_ring(path, EVENT_VERSION)
        super().__init__(self._region, "oldest")

    @property
    def current(self) -> bool:
        """Whether the file of the ring has not been replaced."""
        return self._region.is_current()

    def recent(self) -> Records:
        """The newest events since the last call, at most RECENT."""
        self.cursor: int = max(self.cursor, self.head - RECENT)
        return self.read(RECENT)[0]


def _joined(events: Records, more: Records) -> Records:
    """The newest RECENT events of both arrays, sorted by time."""
    both = np.concatenate([events, more])
    return both[np.argsort(both["time_ns"], kind="stable")][-RECENT:]


def _where(event: Mapping[str, Any]) -> str:
    """Switch, port and queue of an event's object."""
    node, port, queue = label(event["node"]), event["port"], event["queue"]
    parts = [
        node,
        port and (port["name"] or f"port {port['id']}"),
        None if queue is None else f"queue {queue}",
    ]
    return " · ".join(filter(None, parts))


def _flow(row: np.void) -> str:
    src, dst = (address(int(row[f"{side}_hi"]), int(row[f"{side}_lo"])) for side in ("src", "dst"))
    ports = {name: int(row[name]) for name in ("sport", "dport", "proto")}
    return flow_text({"src": src, "dst": dst, **ports})
