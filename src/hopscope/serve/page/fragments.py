"""Parts of the live page as HTML, made once per snapshot and shared by all pages. All text is escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

from ...base.names import Names
from ...detect.bottleneck.shares import QuantileRange
from ...detect.counters import STORED
from ...detect.records import NO_PORT, Kind
from ...present.collector_state import LimitsInForce
from ...present.units import duration, endpoints, measured, place, port_text, si
from ...settings.limits import SINK_METRICS, SWITCH_METRICS, MetricLimits, SwitchMetricLimits
from ...wire.address import address
from ...wire.records import Records
from ..routes.collector_models import CounterValue
from .contributors import contributors_table
from .feed import feed
from .labels.ports import age_map
from .labels.tracked import paths_table
from .losses import dropped_packets, lost_reports
from .snapshot import COLUMNS, HotRow, SlowHop, Snapshot
from .strips import CALM, LEVELS, cells

LIMITED_SWITCHES = 12
"""Switches with limits of their own that are listed."""

_EVENTS = "hopscope_events_total"
_ALL_EMPTY = {
    "queues": "All queues were empty",
    "buffers": "All buffers were empty",
    "links": "All links were idle",
}
FOLDED = {
    "rate": "Rate",
    "loss": "Report losses",
    "plac": "Losses by place",
    "feed": "Events",
    "heat": "Busiest queues",
    "path": "Path",
    "contributors": "Top latency contributors",
    "dist": "Distribution (<code>distributions.enabled</code>)",
    "flow-panel": "Slowest flows",
    "hops": "Slowest hops",
    "lims": "Limits",
}
"""Titles of panels that are folded away while they have no data, by their area."""
NO_QUANTILES: Mapping[int, QuantileRange] = {}


class Fragments:
    """HTML of one snapshot."""

    def __init__(self, snapshot: Snapshot, names: Names) -> None:
        self.snapshot = snapshot
        self.names = names
        self._made: dict[str, str] = {}
        limits = snapshot.limits
        self._sink = limits is not None and limits.metrics == SINK_METRICS
        self._unit = "packet" if self._sink else "report"
        """What is received, and counted of flows: a sink reads packets with INT, and no reports."""

    def get(self, what: str) -> str:
        """A fragment by name: figures, strip:queues, flows, hops, notable, latest, rejected, limits, …"""
        if what not in self._made:
            kind, _, which = what.partition(":")
            self._made[what] = getattr(self, f"_{kind}")(*([which] if which else []))
        return self._made[what]

    def _status(self) -> str:
        snapshot = self.snapshot
        rate = snapshot.summary.reports_per_second
        state = ("ok", "receiving") if rate else ("idle", f"no {self._unit}s")
        if not rate and snapshot.labels is not None and snapshot.labels.ports["rate"].any():
            state = ("ok", "receiving labels")
        if not snapshot.summary.workers:
            state = state if state[1] == "receiving labels" else ("idle", "no labels")
            state = state if snapshot.takes_labels else ("bad", "no collector")
        alarms = f'<span class="pill bad">{snapshot.alarms} above limit</span>' if snapshot.alarms else ""
        ports = 0 if snapshot.labels is None else int(np.count_nonzero(snapshot.labels.ports["silent"]))
        quiet = "".join(
            f'<span class="pill bad">{silent:,} silent {what}{"s" * (silent > 1)}</span>'
            for silent, what in ((snapshot.summary.silent_sources, "source"), (ports, "port"))
            if silent
        )
        return (
            f'<span class="pill {state[0]}"><i></i>{state[1]}</span>{alarms}{quiet}'
            f'<span class="clock">{snapshot.summary.time[11:19]} <em>UTC</em></span>'
        )

    def _figures(self) -> str:
        s = self.snapshot.summary
        lost, reports = int(s.lost), int(s.reports)
        ratio = lost / (lost + reports) if lost + reports else 0
        counted = {each.label["kind"]: int(each.value) for each in self._counted(_EVENTS) if each.label}
        stored = sum(counted.get(kind.label, 0) for kind in STORED)
        reduction = [si(int(s.values) / stored), ":1"] if stored and int(s.values) else ["–", ""]
        drops = counted.get(Kind.DROP.label, 0)
        per_report = duration(s.ns_per_report).split() if s.ns_per_report else ["–", ""]
        unit = self._unit.capitalize()
        of_lost = (
            "Reports lost",
            si(s.lost_per_second),
            "/s",
            f"{si(lost)} total · {ratio:.3%}",
            _mood(s.lost_per_second, "bad"),
        )
        cells = [
            (f"{unit}s", si(s.reports_per_second), "/s", f"{si(reports)} total", ""),
            *([] if self._sink else [of_lost]),
            (
                f"{unit}s rejected",
                si(s.rejected_per_second),
                "/s",
                f"{si(int(s.rejected))} total{self._worst_reason()}",
                _mood(s.rejected_per_second),
            ),
            (
                "Dropped by the kernel",
                si(int(s.kernel_drops)),
                "",
                "frames" if self._sink else "datagrams of reports",
                _mood(int(s.kernel_drops), "bad"),
            ),
            (
                "Packets dropped",
                si(drops),
                "",
                "reported by switches",
                _mood(drops, "bad"),
            ),
            ("Events", si(s.events_per_second), "/s", f"{si(int(s.events))} total", ""),
            ("Values per stored event", *reduction, "reduction by detection", ""),
            ("Live flows", si(s.flows), "", f"{s.switches} switches · {s.sources} sources", ""),
            ("Worker", *per_report, f"per {self._unit} · {s.busy_ratio:.0%} busy", _mood(s.busy_ratio > 0.9)),
        ]
        return "".join(
            f'<div class="figure {mood}"><label>{label}</label>'
            f"<b>{value}<u>{unit}</u></b><small>{note}</small></div>"
            for label, value, unit, note, mood in cells
        )

    # ------------------------------------------------------------------------------------------ losses

    def _lost(self) -> str:
        return lost_reports(self.snapshot.losses, self.names)

    def _dropped(self) -> str:
        return dropped_packets(self.snapshot.losses, self.names)

    # ------------------------------------------------------------------------------------------ folding

    def empty_panels(self) -> frozenset[str]:
        """Panels without anything to show, by their area."""
        snapshot, summary = self.snapshot, self.snapshot.summary
        has_reports = any(map(int, (summary.reports, summary.rejected, summary.kernel_drops)))
        has_flows = len(snapshot.slow_flows) > 0
        shown = {
            "figs": has_reports or summary.workers > 0,
            "rate": has_reports,
            "loss": has_reports,
            "plac": bool(snapshot.losses),
            "feed": bool(snapshot.latest) or int(summary.rejected) > 0,
            "heat": any(snapshot.strips.values()),
            "path": has_flows,
            "contributors": bool(snapshot.contributors.items),
            "dist": snapshot.recently.counted,
            "flow-panel": has_flows,
            "hops": bool(snapshot.slow_hops),
            "lims": summary.workers > 0,
        }
        return frozenset(area for area, has_content in shown.items() if not has_content)

    def _folded(self) -> str:
        """A line that names the panels that are folded away."""
        if not self.snapshot.summary.workers and self.snapshot.takes_labels:
            return "This collector takes no reports: panels about them are not shown."
        empty = self.empty_panels()
        titles = " · ".join(title for area, title in FOLDED.items() if area in empty)
        return f"Without data: {titles}" if titles else ""

    # ------------------------------------------------------------------------------------------ rejects

    def _counted(self, name: str) -> list[CounterValue]:
        """Counters of a family that are not zero, the largest first."""
        found = [each for each in self.snapshot.summary.counters if each.name == name and int(each.value)]
        return sorted(found, key=lambda each: -int(each.value))

    def _worst_reason(self) -> str:
        found = self._counted("hopscope_rejected_reports_total")
        return f" · {_label(found[0])}" if found else ""

    def _rejected(self) -> str:
        tables = [
            _table(
                f'<tr><th>{what}<th class="n">{self._unit.capitalize()}s<th class="n">/s</tr>',
                [
                    f'<tr><td>{_label(counter)}<td class="n"><b>{si(int(counter.value))}</b>'
                    f'<td class="n">{si(counter.per_second)}</tr>'
                    for counter in self._counted(name)
                ],
                f"No {self._unit} was rejected." if what == "Reject reason" else "",
            )
            for what, name in (
                ("Reject reason", "hopscope_rejected_reports_total"),
                ("Header", "hopscope_rejected_headers_total"),
            )
        ]
        return "".join(tables)

    # -------------------------------------------------------------------------------------------- tables

    def _flows(self) -> str:
        rows = [self._flow_row(row) for row in self.snapshot.slow_flows]
        head = (
            '<tr><th>Flow<th class="n">Latency<th class="n">Mean<th class="n">Hops'
            f'<th class="n">{self._unit.capitalize()}s</tr>'
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
        worst = max((hop.worst_ns for hop in self.snapshot.slow_hops), default=1)
        head = '<tr><th>Switch, port<th class="n">Worst<th class="n">Mean<th class="n">Flows</tr>'
        return _table(
            head, [self._hop_row(hop, worst) for hop in self.snapshot.slow_hops], "No hop latencies."
        )

    def _hop_row(self, hop: SlowHop, worst: int) -> str:
        share = 100 * hop.worst_ns / max(1, worst)
        return (
            f"<tr><td>{place(self.names, hop.node_id, hop.port)}"
            f'<td class="n bar" style="--w:{share:.0f}%"><b>{duration(hop.worst_ns)}</b>'
            f'<td class="n">{duration(hop.mean_ns)}<td class="n">{hop.flows}</tr>'
        )

    def _contributors(self) -> str:
        return contributors_table(self.snapshot.contributors, self.names)

    def _labels(self) -> str:
        return "" if self.snapshot.labels is None else age_map(self.snapshot.labels, self.names)

    def _tracked(self) -> str:
        return "" if self.snapshot.labels is None else paths_table(self.snapshot.labels, self.names)

    def _limits(self) -> str:
        names = ("Change threshold", "Raise above", "Clear below")
        head = "<tr><th>Metric" + "".join(f'<th class="n">{name}' for name in names) + "</tr>"
        found = self.snapshot.limits
        if found is None:
            return _table(head, (), "No collector is running here.")
        general, switches = found.limits.general, found.limits.switches
        rows = [_limit_row(_words(metric), metric, getattr(general, metric)) for metric in found.metrics]
        for switch in switches[:LIMITED_SWITCHES]:
            name = escape(self.names.node_label(switch.node))
            rows += [
                _limit_row(f"{_words(metric)} <em>{name}</em>", metric, switch.resolved(general, metric))
                for metric in SWITCH_METRICS
                if getattr(switch, metric) != SwitchMetricLimits()
            ]
        note = ""
        if more := len(switches) - LIMITED_SWITCHES:
            note = f"{more} more switches have limits of their own. " if more > 0 else ""
        if found.change is not None:
            age = duration(max(0, self.snapshot.time_ns - found.change.time_ns))
            note += f"Changed {age} ago by {escape(found.change.author)}."
        return _table(head, rows, "") + (f'<p class="note">{note}</p>' if note else "")

    # -------------------------------------------------------------------------------------------- strips

    def _strip(self, which: str) -> str:
        rows = self.snapshot.strips[which]
        if not rows:
            return f'<p class="empty">{_ALL_EMPTY[which]} during the last minute.</p>'
        limits = [_limit_of(self.snapshot.limits, which, row.node_id) for row in rows]
        top = max(row.peak for row in rows)
        body = "".join(
            self._strip_row(which, row, top, limit) for row, limit in zip(rows, limits, strict=True)
        )
        steps = [f'<i class="h{level}"></i>' for level in range(1, LEVELS + 1)]
        limit = limits[0]
        if any(each != limit for each in limits):  # each row has the colours of its own
            key = f"0 {''.join(steps[:CALM])} <em>limit of the switch</em> {''.join(steps[CALM:])} {si(top)}"
        elif limit is None:
            key = f"0 {''.join(steps)} {si(top)}"
        else:
            above = f"{''.join(steps[CALM:])} {si(top)}" if top > limit else ""
            key = f"0 {''.join(steps[:CALM])} {si(limit)} <em>limit</em> {above}"
        return (
            f'<div class="strip">{body}</div><div class="scale"><span>−60 s</span>'
            f'<span class="key">{key}</span><span>now</span></div>'
        )

    def _strip_row(self, which: str, row: HotRow, top: int, limit: int | None) -> str:
        port = row.ident if which == "links" else row.port
        what = "" if which == "links" else f" <em>{which[0]}{row.ident}</em>"
        mood = "bad" if row.alarm or (limit is not None and row.now > limit) else ""
        name = f"{place(self.names, row.node_id, port)}{what}"
        return (
            f'<div class="row {mood}" data-node="{row.node_id}" data-peak="{row.peak}">'
            f'<span class="name">{name}</span>'
            f'<svg viewBox="0 0 {COLUMNS} 1" preserveAspectRatio="none">{cells(row.values, top, limit)}</svg>'
            f'<span class="n"><b>{si(row.now)}</b></span><span class="n peak">{si(row.peak)}</span></div>'
        )

    # -------------------------------------------------------------------------------------------- events

    def _notable(self) -> str:
        return feed(self.snapshot.notable, self.names, what="notable events")

    def _latest(self) -> str:
        return feed(self.snapshot.latest, self.names)

    # -------------------------------------------------------------------------------------------- path

    def path(
        self, flow: np.void, hops: Records, quantiles: Mapping[int, QuantileRange] = NO_QUANTILES
    ) -> str:
        """A flow's path, hop by hop, with a ribbon of each hop's share of the latency; `quantiles` by hop."""
        known = [int(hop["latency_latest"]) if hop["state"] & 1 else 0 for hop in hops]
        total = max(1, sum(known))
        worst = known.index(max(known)) if 2 * max(known, default=0) > total else -1
        ribbon = "".join(
            f'<i style="flex-grow:{max(each, total // 200)}" class="{"slow" if at == worst else ""}" '
            f'title="{escape(self.names.node_label(hop["node_id"]))}: {duration(each)}"></i>'
            for at, (hop, each) in enumerate(zip(hops, known, strict=True))
        )
        cards = "".join(
            self._hop_card(hop, each, total, at == worst, quantiles.get(at))
            for at, (hop, each) in enumerate(zip(hops, known, strict=True))
        )
        src = escape(address(int(flow["src_hi"]), int(flow["src_lo"])))
        dst = escape(address(int(flow["dst_hi"]), int(flow["dst_lo"])))
        latency = duration(sum(known)) if any(known) else "latency unknown"
        loop = ' · <b class="bad">loop</b>' if flow["state"] & 4 else ""
        partial = " · path incomplete" if flow["state"] & 8 else ""
        age, packets = max(0, self.snapshot.time_ns - int(flow["last_ns"])), int(flow["packets"])
        last = f"last {duration(age)} ago" if age > 10**9 else "live"
        return (
            f'<div class="flow-head"><b>{endpoints(flow)}</b>'
            f"<span>{latency} over {len(hops)} hops{loop}{partial}"
            f" · {si(packets)} {self._unit}{'s' * (packets != 1)} · {last}</span></div>"
            f'<div class="ribbon">{ribbon}</div>'
            f'<div class="chain"><span class="host">{src}</span>{cards}<span class="host">{dst}</span></div>'
        )

    def _hop_card(
        self, hop: np.void, latency: int, total: int, slowest: bool, quantile: QuantileRange | None
    ) -> str:
        node, port = int(hop["node_id"]), int(hop["egress_port"])
        mood = "bad" if hop["alarm"] else "slow" if slowest else ""
        seen = [f"{100 * latency / total:.0f} %"]
        for name, value in (("queue", int(hop["queue_latest"])), ("link", int(hop["utilization_latest"]))):
            if 0 < value < 0xFFFFFFFF:
                seen.append(f"{name} {si(value)}")
        if quantile is not None and quantile.lower >= 0.5:
            seen.insert(1, f"slower than {int(100 * quantile.lower)} % here")
        via = "" if port == NO_PORT else port_text(self.names, node, port)
        return (
            f'<span class="hop {mood}"><b>{escape(self.names.node_label(node))}</b><small>{via}</small>'
            f"<strong>{duration(latency) if hop['state'] & 1 else '–'}</strong>"
            f"<small>{' · '.join(seen)}</small></span>"
        )


def _label(counter: CounterValue) -> str:
    return escape(" ".join((counter.label or {}).values()).replace("_", " "))


def _mood(trouble: float, mood: str = "warn") -> str:
    return mood if trouble else ""


def _table(head: str, rows: Sequence[str], empty: str) -> str:
    if not rows:
        return f'<p class="empty">{empty}</p>' if empty else ""
    return f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"


def _words(name: str) -> str:
    return name.replace("_", " ")


def _limit_row(title: str, metric: str, limits: MetricLimits) -> str:
    unit = "ns" if metric.endswith("latency") else None
    cleared = "every report" if limits.raise_above is not None else "–"
    if limits.clear_below is not None:
        cleared = measured(limits.clear_below, unit)
    texts = ["never" if v is None else measured(v, unit) for v in (limits.change, limits.raise_above)]
    return f"<tr><td>{title}" + "".join(f'<td class="n">{t}' for t in (*texts, cleared)) + "</tr>"


def _limit_of(limits: LimitsInForce | None, which: str, node_id: int) -> int | None:
    """Above which value the queues, buffers or links of a switch raise an alarm."""
    if limits is None:
        return None
    metric = {"queues": "queue_occupancy", "buffers": "buffer_occupancy", "links": "link_utilization"}[which]
    general = limits.limits.general
    own = next((switch for switch in limits.limits.switches if switch.node == node_id), None)
    found: MetricLimits = getattr(general, metric) if own is None else own.resolved(general, metric)
    return found.raise_above
