"""Watch lists and tracked flows, changed through the control socket."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...control.rules import Rules, change_tracked, change_watch, read_changes, read_rules, write_rules
from ...labels.registers import Registers, RegistersError
from ...memory.region import RegionError
from ...settings.collector import Settings
from ...settings.label import TrackedFlowSettings
from ...wire.address import address, network

_LOW = (1 << 64) - 1


def answer_rules(settings: Settings, regions: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Answer `tracked`, `set_tracked`, `watch` or `set_watch`. ValueError: rejected.

    Tracked flows belong to the switches that the controller reaches, or to the registers of a fabric.
    """
    rules = read_rules(regions)
    if "watch" in request or "set_watch" in request:
        if not settings.switches:
            raise ValueError("no switches: their own settings have their watch lists")
        if "set_watch" in request:
            rules = change_watch(rules, settings.switches, request["set_watch"])
            write_rules(regions, rules)
        return {"watch": None if rules.watch is None else as_json(rules)["watch"]}
    registers = settings.label.registers
    if not settings.switches:
        if "tracked" in request:
            return {"tracked": tracked_flows(registers)}
        return {"tracked": change_tracked_flows(registers, request["set_tracked"])}
    if "set_tracked" in request:
        rules = change_tracked(rules, request["set_tracked"])
        if registers is not None:
            change_tracked_flows(registers, request["set_tracked"])
        write_rules(regions, rules)
    return {"tracked": as_json(rules).get("track") or []}


def as_json(rules: Rules) -> dict[str, Any]:
    """Rules for JSON."""
    return rules.model_dump(mode="json")


def tracked_flows(path: Path | None) -> list[dict[str, Any]]:
    """Flows that the switches with these registers track. ValueError: there are no registers."""
    return [
        {
            "src": address(source >> 64, source & _LOW),
            "dst": address(target >> 64, target & _LOW),
            "every": every,
        }
        for source, target, every in _registers(path, writable=False).tracked_flows()
    ]


def change_tracked_flows(path: Path | None, changes: Any) -> list[dict[str, Any]]:
    """Track the flows of `add`, and no longer those of `remove`; returns all. ValueError: rejected."""
    added, removed = read_changes(changes, TrackedFlowSettings)
    registers = _registers(path, writable=True)
    try:
        for flow in removed:
            registers.untrack(network(flow.src)[0], network(flow.dst)[0])
        for flow in added:
            registers.track(network(flow.src)[0], network(flow.dst)[0], flow.every)
    except RegistersError as error:
        raise ValueError(str(error)) from None
    return tracked_flows(path)


def _registers(path: Path | None, *, writable: bool) -> Registers:
    if path is None:
        raise ValueError("no label.registers: the switches decide themselves which flows they track")
    try:
        return Registers.attach(path, writable)
    except (RegionError, OSError) as error:
        raise ValueError(str(error)) from None
