"""Alerts as text: the templates of the settings, filled with values of the alert."""

from __future__ import annotations

from collections.abc import Callable
from string import Template
from urllib.parse import quote

from ...detect.records import ClearReason, Kind, Metric
from ...present.events import label
from ...present.units import amount, duration, flow_text
from ...settings.destinations.alerts import VARIABLES, AlertSettings
from .alarms import Alert
from .outbox import Message

TEXT = 256
"""Maximum length of a name in a text."""
Escape = Callable[[str], str]


def plain(text: str, most: int = TEXT) -> str:
    """One line of printable text: line breaks, control and format characters become spaces."""
    clean = "".join(letter if letter.isprintable() else " " for letter in text[: 4 * most])
    return " ".join(clean.split())[:most]


class Texts:
    """The templates of one destination; `escape` is applied to every inserted value."""

    def __init__(self, settings: AlertSettings, member: str, escape: Escape = plain) -> None:
        self._line, self._page = Template(settings.line), Template(settings.page)
        self._title = Template(getattr(settings, "title", settings.line))
        self._member, self._escape = member, escape

    def line(self, alert: Alert) -> str:
        """The text of one alert."""
        return _filled(self._line, self._values(alert, self._escape))

    def title(self, message: Message) -> str:
        """The title of a message."""
        values = self._values(message.alerts[0], self._escape) | {
            "severity": message.severity,
            "count": str(message.count),
            "more": f" and {message.count - 1:,} more" if message.count > 1 else "",
        }
        return _filled(self._title, values)

    def page(self, alert: Alert) -> str:
        """Address of a page about an alert; empty: none."""
        return self._page.substitute(self._values(alert, lambda value: quote(plain(value), safe="")))

    def _values(self, alert: Alert, escape: Escape) -> dict[str, str]:
        return {name: escape(value) for name, value in values(alert, self._member).items()}


def _filled(template: Template, values: dict[str, str]) -> str:
    return " ".join(template.substitute(values).split())


def values(alert: Alert, member: str) -> dict[str, str]:
    """The values of `VARIABLES`, not escaped; empty: not applicable."""
    source, flow, path = alert["source"], alert["flow"], alert["path"]
    node = source["node"] if source else alert["node"]
    port, lasted = alert["port"], alert["lasted_ns"]
    found = dict.fromkeys(VARIABLES, "") | {
        **{name: str(alert[name]) for name in ("severity", "kind", "time", "since", "id")},
        "metric": "" if alert["metric"] == Metric.NONE.label else alert["metric"],
        "reason": alert["reason"] or "",
        "lasted": "" if lasted is None else duration(lasted),
        "node": label(node) or "",
        "node_id": "" if node is None else str(node["id"]),
        "port": label(port) or "",
        "port_id": "" if port is None else str(port["id"]),
        "queue": "" if alert["queue"] is None else str(alert["queue"]),
        "flow": flow_text(flow) if flow else "",
        "src": flow["src"] if flow else "",
        "dst": flow["dst"] if flow else "",
        "path": " → ".join(str(label(each)) for each in path or ()),
        "source": source["address"] if source else "",
        "collector": member,
        "count": "1",
    }
    if alert["metric"] != Metric.FLOW_PATH.label:
        found["value"] = amount(alert["value"], alert["unit"])
        if alert["reason"] in (None, ClearReason.VALUE.label):  # otherwise no limit ended the alarm
            found["limit"] = amount(alert["previous"], "ns" if source else alert["unit"])
    found["place"] = _place(found)
    return found | {"summary": _summary(alert, found)}


def _place(found: dict[str, str]) -> str:
    parts = [found["node"]]
    parts += [f"port {found['port']}"] if found["port"] else []
    parts += [f"queue {found['queue']}"] if found["queue"] else []
    return " ".join(filter(None, parts))


def _summary(alert: Alert, found: dict[str, str]) -> str:
    """What happened, in one line."""
    kind, at = alert["kind"], f" at {found['place']}" if found["place"] else ""
    flow = f", flow {found['flow']}" if found["flow"] else ""
    if kind in (Kind.RAISED.label, Kind.THRESHOLD.label):
        side = "below" if alert["metric"] == Metric.LABEL_COVERAGE.label else "above"
        return f"{found['metric']} {found['value']} {side} {found['limit']}{at}{flow}"
    if kind == Kind.CLEARED.label:
        why = "" if alert["reason"] == ClearReason.VALUE.label else f" ({alert['reason']})"
        return f"{found['metric']} {found['value']}{at} after {found['lasted']}{why}{flow}"
    if kind == Kind.SILENT.label:
        return f"no reports from {found['source']}{at} for {found['limit']}"
    if kind == Kind.RETURNED.label:
        return f"reports from {found['source']}{at} after {found['lasted']}"
    if found["path"]:
        return f"path {found['path']}{flow}"
    value = f" {found['value']}" if found["value"] else ""
    return f"{found['metric']}{value}{at}{flow}".strip()
