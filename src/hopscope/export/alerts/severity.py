"""How severe an event is: rules of the settings, in the order of critical, warning, info."""

from __future__ import annotations

from ...base.errors import HopscopeError
from ...detect.records import Kind, Metric
from ...present.severity import severity_of_kind
from ...settings.destinations.alerts import SEVERITIES, AlertSettings, Rule, parse_rule

_KINDS = {kind.label: int(kind) for kind in Kind}
_METRICS = {metric.label: int(metric) for metric in Metric}


class SeverityRules:
    """The rules of a destination. Raises HopscopeError for unknown kinds and metrics."""

    def __init__(self, settings: AlertSettings) -> None:
        self._rules = [
            (severity, _known(parse_rule(text)))
            for severity in reversed(SEVERITIES)
            for text in getattr(settings, severity)
        ]
        self.least = rank(settings.least_severity)

    def of(self, kind: int, metric: int, value: int) -> str:
        """Severity of an event."""
        for severity, rule in self._rules:
            if _matches(rule, kind, metric, value):
                return severity
        return severity_of_kind(kind)


def rank(severity: str) -> int:
    """0 is the least severe."""
    return SEVERITIES.index(severity)


def _known(rule: Rule) -> Rule:
    if (rule.kind and rule.kind not in _KINDS) or rule.name not in (
        _METRICS if rule.kind else _KINDS | _METRICS
    ):
        raise HopscopeError(
            f"found {rule.kind or rule.name!r} in a rule, expected a kind ({', '.join(_KINDS)}), or a metric "
            f"({', '.join(_METRICS)})"
        )
    return rule


def _matches(rule: Rule, kind: int, metric: int, value: int) -> bool:
    if rule.kind and _KINDS[rule.kind] != kind:
        return False
    if rule.name in _METRICS and _METRICS[rule.name] != metric:
        return False
    if rule.name not in _METRICS and _KINDS[rule.name] != kind:
        return False
    return not rule.sign or (value >= rule.value if rule.sign == ">=" else value <= rule.value)
