"""Parts of the live page as HTML, made once for each look and shared by every open page. All text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby
from typing import Any

import numpy as np

from ..detect.as_json import address
from ..detect.records import NO_PORT
from ..names import Names
from ..wire.records import Records
from .poller import COLUMNS, HotRow, Look, SlowHop
from .state import Limits

PROTOCOLS = {1: "icmp", 6: "tcp", 17: "udp", 58: "icmp6", 132: "sctp"}
LEVELS = 8
_BAD = {"raised", "threshold", "loop", "drop", "silent", "gap"}
_GOOD = {"cleared", "returned"}


def si(value: float) -> str:
    """A count in at most five characters and its prefix: 980, 12.3k, 4.56M."""
    for limit, divisor, suffix in ((1e3, 1, ""), (1e6, 1e3, "k"), (1e9, 1e6, "M"), (1e12, 1e9, "G")):
        if abs(value) < limit * 0.9995:
            scaled = value / divisor
            digits = 0 if suffix == "" and scaled == int(scaled) else max(0, 3 - len(str(int(abs(scaled)))))
            return f"{scaled:.{digits}f}{suffix}"
    return f"{value / 1e12:.3g}T"


def duration(ns: float) -> str:
    """A time with its unit: 640 ns, 12.3 µs, 4.56 ms."""
    for limit, divisor, unit in ((1e3, 1, "ns"), (1e6, 1e3, "µs"), (1e9, 1e6, "ms")):
        if ns < limit * 0.9995:
            scaled = ns / divisor
            return f"{scaled:.{0 if divisor == 1 else max(0, 3 - len(str(int(scaled))))}f} {unit}"
    return f"{ns / 1e9:.2f} s"


def measured(value: object, unit: object) -> str:
    """A value of an event with its unit; without one it is as the source sends it."""
    try:
        number = int(str(value))
    except ValueError:
        return escape(str(value))
    return duration(number) if unit == "ns" else si(number)


class Fragments:
    """HTML of one look."""

    def __init__(self, look: Look, names: Names) -> None:
        self.look = look
        self.names = names
        self._made: dict[str, str] = {}

    def get(self, what: str) -> str:
        """A fragment by name: figures, strip:queues, flows, hops, notable, latest, limits, status."""
        if what not in self._made:
            kind, _, which = what.partition(":")
            self._made[what] = getattr(self, f"_{kind}")(*([which] if which else []))
        return self._made[what]

    def _status(self) -> str:
        look = self.look
        rate = look.summary.reports_per_second
        state = ("ok", "receiving") if rate else ("idle", "no reports")
        if not look.summary.workers:
            state = ("bad", "no collector")
        alarms = f'<span class="pill bad">{look.alarms} above limit</span>' if look.alarms else ""
        silent = look.summary.silent_sources
        quiet = f'<span class="pill bad">{silent} silent source{"s" * (silent > 1)}</span>' if silent else ""
        clock = look.summary.time[11:19]
        return (
            f'<span class="pill {state[0]}"><i></i>{state[1]}</span>{alarms}{quiet}'
            f'<span class="clock">{clock} <em>UTC</em></span>'
        )

    def _figures(self) -> str:
        s = self.look.summary
        lost, reports = int(s.lost), int(s.reports)
        ratio = lost / (lost + reports) if lost + reports else 0
        stored = int(s.events)
        reduction = int(s.values) / stored if stored else 0
        cells = [
            ("Reports", si(s.reports_per_second), "/s", f"{si(reports)} in all", ""),
            ("Lost", si(s.lost_per_second), "/s", f"{si(lost)} in all · {ratio:.3%}", "bad" if s.lost_per_second else ""),
            ("Refused", si(s.refused_per_second), "/s", f"{si(int(s.refused))} in all", "warn" if s.refused_per_second else ""),
            ("Dropped by kernel", si(int(s.kernel_drops)), "", "datagrams", "bad" if int(s.kernel_drops) else ""),
            ("Events", si(s.events_per_second), "/s", f"{si(stored)} in all", ""),
            ("Reduction", si(reduction), "×", "values per event", ""),
            ("Live flows", si(s.flows), "", f"{s.switches} switches · {s.sources} sources", ""),
            ("Per report", f"{s.ns_per_report:.0f}" if s.ns_per_report else "–", "ns" if s.ns_per_report else "",
             f"{s.busy_ratio:.0%} busy · {s.workers} worker{'s' * (s.workers != 1)}", "warn" if s.busy_ratio > 0.9 else ""),
        ]  # fmt: skip
        return "".join(
            f'<div class="figure {mood}"><label>{label}</label><b>{value}<u>{unit}</u></b><small>{note}</small></div>'
            for label, value, unit, note, mood in cells
        )

    # -------------------------------------------------------------------------------------------- tables

    def _flows(self) -> str:
        rows = [self._flow_row(row) for row in self.look.slow_flows]
        head = (
            '<tr><th>Flow<th class="n">Latency<th class="n">Mean<th class="n">Hops<th class="n">Reports</tr>'
        )
        return _table(head, rows, "No live flow carries hop latencies.")

    def _flow_row(self, row: np.void) -> str:
        known = int(row["state"]) & 2
        samples = max(1, int(row["latency_samples"]))
        mood = ' class="bad"' if row["alarm"] else ""
        return (
            f'<tr data-flow="{int(row["flow_id"]):016x}"{mood}><td>{endpoints(row)}'
            f'<td class="n"><b>{duration(int(row["latency_latest"])) if known else "–"}</b>'
            f'<td class="n">{duration(int(row["latency_sum"]) / samples) if known else "–"}'
            f'<td class="n">{int(row["hop_count"])}<td class="n">{si(int(row["packets"]))}</tr>'
        )

    def _hops(self) -> str:
        worst = max((hop.worst_ns for hop in self.look.slow_hops), default=1)
        head = '<tr><th>Switch → port<th class="n">Worst<th class="n">Mean<th class="n">Flows</tr>'
        return _table(head, [self._hop_row(hop, worst) for hop in self.look.slow_hops], "No hop latencies.")

    def _hop_row(self, hop: SlowHop, worst: int) -> str:
        share = 100 * hop.worst_ns / max(1, worst)
        return (
            f"<tr><td>{self.place(hop.node_id, hop.port)}"
            f'<td class="n bar" style="--w:{share:.0f}%"><b>{duration(hop.worst_ns)}</b>'
            f'<td class="n">{duration(hop.mean_ns)}<td class="n">{hop.flows}</tr>'
        )

    def _limits(self) -> str:
        head = (
            '<tr><th>Metric<th class="n">Stored at ±<th class="n">Raised &gt;<th class="n">Cleared &lt;</tr>'
        )
        rows = [_limit_row(metric, limits) for metric, limits in self.look.limits.items()]
        return _table(head, rows, "No collector runs here.")

    # -------------------------------------------------------------------------------------------- strips

    def _strip(self, which: str) -> str:
        rows = self.look.strips[which]
        if not rows:
            return f'<p class="empty">No {which} in the reports of the last minute are occupied.</p>'
        top = max(row.peak for row in rows)
        limit = _limit_of(self.look.limits, which)
        body = "".join(self._strip_row(which, row, top, limit) for row in rows)
        key = "".join(f'<i class="h{level}"></i>' for level in range(1, LEVELS + 1))
        above = f" · alarm above {si(limit)}" if limit is not None else ""
        return (
            f'<div class="strip">{body}</div><div class="scale"><span>−60 s</span><span class="key">0 {key} {si(top)}'
            f"{above}</span><span>now</span></div>"
        )

    def _strip_row(self, which: str, row: HotRow, top: int, limit: int | None) -> str:
        port = row.ident if which == "links" else row.port
        what = "" if which == "links" else f" <em>{which[0]}{row.ident}</em>"
        mood = "bad" if row.alarm or (limit is not None and row.now > limit) else ""
        name = f"{self.place(row.node_id, port)}{what}"
        return (
            f'<div class="row {mood}" data-node="{row.node_id}" data-peak="{row.peak}"><span class="name">{name}</span>'
            f'<svg viewBox="0 0 {COLUMNS} 1" preserveAspectRatio="none">{cells(row.values, top)}</svg>'
            f'<span class="n"><b>{si(row.now)}</b></span><span class="n peak">{si(row.peak)}</span></div>'
        )

    # -------------------------------------------------------------------------------------------- events

    def _notable(self) -> str:
        return self._feed(self.look.notable)

    def _latest(self) -> str:
        return self._feed(self.look.latest)

    def _feed(self, events: Iterable[dict[str, Any]]) -> str:
        rows = [self._event(event) for event in events]
        return "".join(rows) or '<p class="empty">Nothing has happened yet.</p>'

    def _event(self, event: dict[str, Any]) -> str:
        kind, flow = str(event["kind"]), event["flow"]
        mood = "bad" if kind in _BAD else "good" if kind in _GOOD else ""
        click = f' data-flow="{flow["id"]}"' if flow else ""
        return (
            f'<div class="event {mood}"{click}><time>{str(event["time"])[11:23]}</time>'
            f"<b>{escape(kind.replace('_', ' '))}</b><span>{self._told(event)}</span></div>"
        )

    def _told(self, event: dict[str, Any]) -> str:
        kind, unit = event["kind"], event["unit"]
        value, previous = measured(event["value"], unit), measured(event["previous"], unit)
        where = ""
        if event["node"]:
            where = f" at {self.place(event['node']['id'], (event['port'] or {}).get('id', NO_PORT))}"
            if event["queue"] is not None:
                where += f" <em>q{event['queue']}</em>"
        flow = event["flow"]
        whose = f"<small>{escape(flow_text(flow))}</small>" if flow else ""
        metric = escape(str(event["metric"]).replace("_", " "))
        if event["source"]:
            source = event["source"]
            name = self.names.node_label(source["node"]["id"]) if source["node"] else ""
            more = f" · {value} reports" if kind == "gap" else ""
            return f"{escape(source['address'])} {escape(name)}{more}"
        if kind in ("raised", "threshold", "cleared"):
            sign = "&lt;" if kind == "cleared" else "&gt;"
            return f"{metric} <b>{value}</b> {sign} {previous}{where}{whose}"
        if kind in ("path_change", "loop") or event["path"]:
            nodes = " → ".join(escape(self.names.node_label(node["id"])) for node in event["path"] or ())
            return f"{nodes}{whose}"
        if kind == "drop":
            return f"reason {value}{where}{whose}"
        if kind == "change":
            return f"{metric} {previous} → <b>{value}</b>{where}{whose}"
        return f"{metric} <b>{value}</b>{where}{whose}"

    # -------------------------------------------------------------------------------------------- path

    def path(self, flow: np.void, hops: Records) -> str:
        """A flow's path, hop by hop, with a ribbon of each hop's share of the latency."""
        known = [int(hop["latency_latest"]) if hop["state"] & 1 else 0 for hop in hops]
        total, worst = max(1, sum(known)), max(known, default=0)
        ribbon = "".join(
            f'<i style="flex-grow:{max(each, total // 200)}" class="{"slow" if each == worst and each else ""}" '
            f'title="{escape(self.names.node_label(hop["node_id"]))}: {duration(each)}"></i>'
            for hop, each in zip(hops, known, strict=True)
        )
        cards = "".join(
            self._hop_card(hop, each, total, each == worst) for hop, each in zip(hops, known, strict=True)
        )
        src = escape(address(int(flow["src_hi"]), int(flow["src_lo"])))
        dst = escape(address(int(flow["dst_hi"]), int(flow["dst_lo"])))
        latency = duration(int(flow["latency_latest"])) if flow["state"] & 2 else "latency unknown"
        loop = ' · <b class="bad">loop</b>' if flow["state"] & 4 else ""
        partial = " · path incomplete" if flow["state"] & 8 else ""
        age = max(0, self.look.time_ns - int(flow["last_ns"]))
        return (
            f'<div class="whose"><b>{endpoints(flow)}</b><span>{latency} over {len(hops)} hops{loop}{partial} · '
            f"{si(int(flow['packets']))} reports · last {duration(age)} ago</span></div>"
            f'<div class="ribbon">{ribbon}</div>'
            f'<div class="chain"><span class="host">{src}</span>{cards}<span class="host">{dst}</span></div>'
        )

    def _hop_card(self, hop: np.void, latency: int, total: int, slowest: bool) -> str:
        node, port = int(hop["node_id"]), int(hop["egress_port"])
        mood = "bad" if hop["alarm"] else "slow" if slowest and latency else ""
        seen = [("queue", int(hop["queue_latest"])), ("link", int(hop["utilization_latest"]))]
        more = " · ".join(f"{name} {si(value)}" for name, value in seen if 0 < value < 0xFFFFFFFF)
        via = "" if port == NO_PORT else f"→ {escape(self.names.port_label(node, port))}"
        shown = duration(latency) if hop["state"] & 1 else "–"
        return (
            f'<span class="hop {mood}"><b>{escape(self.names.node_label(node))}</b><small>{via}</small>'
            f"<strong>{shown}</strong><small>{100 * latency / total:.0f} %{' · ' + more if more else ''}</small></span>"
        )

    def place(self, node: int, port: int) -> str:
        """A switch and its port, by name."""
        label = f'<span class="node">{escape(self.names.node_label(node))}</span>'
        return label if port == NO_PORT else f"{label} → {escape(self.names.port_label(node, port))}"


def _table(head: str, rows: Sequence[str], empty: str) -> str:
    if not rows:
        return f'<p class="empty">{empty}</p>'
    return f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"


def _limit_row(metric: str, limits: Limits) -> str:
    unit = "ns" if metric.endswith("latency") else None
    texts = ["never" if v is None else measured(v, unit) for v in (limits.change, limits.raise_above)]
    cleared = limits.clear_below
    last = (
        measured(cleared, unit)
        if cleared is not None
        else "every report"
        if limits.raise_above is not None
        else "–"
    )
    return f'<tr><td>{metric.replace("_", " ")}<td class="n">{texts[0]}<td class="n">{texts[1]}<td class="n">{last}</tr>'


def _limit_of(limits: dict[str, Limits] | Any, which: str) -> int | None:
    metric = {"queues": "queue_occupancy", "buffers": "buffer_occupancy", "links": "link_utilization"}[which]
    found = limits.get(metric)
    above: int | None = found.raise_above if found else None
    return above


def cells(values: Sequence[int], top: int) -> str:
    """One strip's cells as SVG paths, a path for each level that occurs, runs of equal level joined."""
    paths: dict[int, list[str]] = {}
    at = 0
    for level, run in groupby(_level(value, top) for value in values):
        width = len(list(run))
        if level:
            paths.setdefault(level, []).append(f"M{at} 0h{width}v1h-{width}z")
        at += width
    return "".join(f'<path class="h{level}" d="{"".join(parts)}"/>' for level, parts in sorted(paths.items()))


def _level(value: int, top: int) -> int:
    """0 for nothing, else 1 to LEVELS, by the square root: small queues stay visible beside a large one."""
    return 0 if value <= 0 else min(LEVELS, 1 + int((LEVELS - 1) * (value / max(1, top)) ** 0.5 + 0.5))


def flow_text(flow: dict[str, Any]) -> str:
    """5-tuple of a flow object as one line."""
    proto = PROTOCOLS.get(flow["proto"], str(flow["proto"]))
    return f"{_end(flow['src'], flow['sport'])} → {_end(flow['dst'], flow['dport'])} {proto}"


def endpoints(row: np.void) -> str:
    """5-tuple of a FLOW record, for a table's cell."""
    src = _end(address(int(row["src_hi"]), int(row["src_lo"])), int(row["sport"]))
    dst = _end(address(int(row["dst_hi"]), int(row["dst_lo"])), int(row["dport"]))
    proto = PROTOCOLS.get(int(row["proto"]), str(int(row["proto"])))
    return f'<span class="flow">{escape(src)} → {escape(dst)} <em>{proto}</em></span>'


def _end(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
