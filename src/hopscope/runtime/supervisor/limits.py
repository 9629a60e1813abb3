"""Applies requests that change limits while a collector runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from ...settings.configuration.errors import error_lines
from ...settings.limits import (
    LIMITS,
    SINK_METRICS,
    SWITCH_METRICS,
    LimitSettings,
    SwitchLimits,
    ThresholdSettings,
    as_json,
    check_sink,
)

EXPECTED = 'expected limits by metric, such as {"general": {"hop_latency": {"change": 20000}}}'


def changed_limits(limits: LimitSettings, changes: Any, *, sink: bool) -> LimitSettings:
    """Limits after a request: given keys are set (None: never), absent keys stay. ValueError: it is rejected.

    `general` has limits for all switches by metric, `switches` has those of single switches by node id and
    metric. There, "general" removes a limit, so that it is inherited; None in place of a switch removes all
    of its limits.
    """
    if not isinstance(changes, dict) or (unknown := changes.keys() - {"general", "switches"}):
        raise ValueError(
            EXPECTED if not isinstance(changes, dict) else f"{unknown.pop()}: unknown; {EXPECTED}"
        )
    tree = as_json(limits)
    general = changes.get("general", {})
    _change(tree["general"], general, "", SINK_METRICS if sink else ThresholdSettings.model_fields)
    switches = changes.get("switches", {})
    if not isinstance(switches, dict):
        raise ValueError(EXPECTED)
    known = [metric for metric in SWITCH_METRICS if not sink or metric in SINK_METRICS]
    for node, given in switches.items():
        if given is None:
            tree["switches"].pop(node, None)
            continue
        own = tree["switches"].setdefault(node, {})
        for metric in SWITCH_METRICS:
            own.setdefault(metric, {})
        _change(own, given, f"switches.{node}.", known)
    return from_json(tree, sink=sink)


def reset_limits(limits: LimitSettings, configured: LimitSettings, request: Any) -> LimitSettings:
    """Limits after a request to return to the settings' limits: all, or only some `metrics` and `switches`.

    ValueError: it is rejected.
    """
    if not isinstance(request, dict) or request.keys() - {"metrics", "switches"}:
        raise ValueError('expected {}, or {"metrics": ["hop_latency"], "switches": ["7"]}')
    if not request:
        return configured
    tree, before = as_json(limits), as_json(configured)
    for metric in _names(request.get("metrics", [])):
        if metric not in before["general"]:
            raise ValueError(f"{metric}: unknown metric; known are {', '.join(before['general'])}")
        tree["general"][metric] = before["general"][metric]
    for node in _names(request.get("switches", [])):
        tree["switches"].pop(node, None)
        if node in before["switches"]:
            tree["switches"][node] = before["switches"][node]
    return from_json(tree, sink=False)


def from_json(tree: dict[str, Any], *, sink: bool) -> LimitSettings:
    """Limits from the form of `as_json`. ValueError: they contradict each other."""
    switches = [
        {"node": node} | {metric: _own(limits) for metric, limits in metrics.items()}
        for node, metrics in tree["switches"].items()
    ]
    try:
        found = LimitSettings.model_validate({"general": tree["general"], "switches": switches})
    except ValidationError as error:
        raise ValueError("; ".join(error_lines(error, LimitSettings))) from None
    if sink:
        check_sink(found)
    without = SwitchLimits(node=0)
    kept = [each for each in found.switches if each.model_copy(update={"node": 0}) != without]
    return found.model_copy(update={"switches": tuple(kept)})


def _own(limits: dict[str, Any]) -> dict[str, Any]:
    """A switch's limits of a metric as in the settings, where absent limits are inherited."""
    return {name: "never" if value is None else value for name, value in limits.items() if value != "general"}


def _names(given: Any) -> list[str]:
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise ValueError("expected a list of names")
    return given


def _change(tree: dict[str, Any], changes: Any, where: str, known: Iterable[str]) -> None:
    if not isinstance(changes, dict) or not all(isinstance(change, dict) for change in changes.values()):
        raise ValueError(f"{where}{EXPECTED}")
    for metric, change in changes.items():
        if metric not in known:
            raise ValueError(f"{where}{metric}: unknown metric; known are {', '.join(known)}")
        if unknown := change.keys() - set(LIMITS):
            raise ValueError(f"{where}{metric}.{unknown.pop()}: unknown limit; known are {', '.join(LIMITS)}")
        tree[metric].update(change)
