"""Actual or wanted state of a switch: watch list, tracked flows, label function, Reg2 of its ports."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address, ip_network
from typing import Annotated, Any

from pydantic import Field

from ..settings.label import LabellingSettings, TrackedFlowSettings
from ..settings.section import Section
from ..settings.watch import MAX_WATCHES, WatchSettings, prefix

MAX_TRACKED = 1024
EVERY = 255
"""Value in place of S in Reg2: the port labels every packet, as in INT-label's one-bit form (section 5)."""
_CLOSE = 1e-6
"""Probabilities and times that differ by less are equal: switches store them as integers."""
PortNumber = Annotated[int, Field(ge=0, lt=1 << 32)]
Reg2 = Annotated[int, Field(ge=0, le=EVERY)]


class SwitchState(Section):
    """Parts of a switch's state. None: the part is not wanted, or the switch does not have it."""

    watch: Annotated[tuple[WatchSettings, ...], Field(max_length=MAX_WATCHES)] | None = None
    """Packets that get INT."""
    track: Annotated[tuple[TrackedFlowSettings, ...], Field(max_length=MAX_TRACKED)] | None = None
    """Flows of which all switches label one packet in `every`."""
    labelling: LabellingSettings | None = None
    """Interval T and label function."""
    reg2: Annotated[dict[PortNumber, Reg2], Field(max_length=1 << 16)] | None = None
    """Reg2 by port: S, or EVERY. The actual state has all ports, the wanted state those whose Reg2 is not 0,
    a change those to be set.
    """

    def parts(self) -> tuple[str, ...]:
        """Names of the parts that are not None."""
        return tuple(name for name in PARTS if getattr(self, name) is not None)

    def only(self, *parts: str) -> SwitchState:
        """The state with only these parts."""
        return SwitchState.model_construct(**{name: getattr(self, name) for name in parts})

    def as_json(self) -> dict[str, Any]:
        """For JSON: the parts that are not None."""
        return self.model_dump(mode="json", exclude_none=True)


PARTS = tuple(SwitchState.model_fields)


def difference(wanted: SwitchState, actual: SwitchState) -> SwitchState:
    """Change that a switch needs, for the parts that it has; it needs none if `parts()` is empty."""
    change: dict[str, Any] = {}
    for name, form in _FORMS.items():
        want, have = getattr(wanted, name), getattr(actual, name)
        if want is not None and have is not None and not _close(form(want), form(have)):
            change[name] = want
    if wanted.reg2 is not None and actual.reg2 is not None:
        ports = {
            port: wanted.reg2.get(port, 0)
            for port, value in actual.reg2.items()
            if wanted.reg2.get(port, 0) != value
        }
        if ports:
            change["reg2"] = ports
    return SwitchState.model_construct(**change)


def changed(state: SwitchState, change: SwitchState) -> SwitchState:
    """The state after a change."""
    given = {name: getattr(change, name) for name in change.parts()}
    if change.reg2 is not None:
        given["reg2"] = (state.reg2 or {}) | change.reg2
    return state.model_copy(update=given)


def lacking(wanted: SwitchState, actual: SwitchState) -> tuple[str, ...]:
    """Wanted parts (unless empty) and ports that the switch does not have."""
    parts = [name for name in wanted.parts() if getattr(wanted, name) and getattr(actual, name) is None]
    ports = () if actual.reg2 is None else sorted((wanted.reg2 or {}).keys() - actual.reg2.keys())
    return (*parts, *(f"port {port}" for port in ports))


def _entry(watch: WatchSettings) -> dict[str, Any]:
    """An entry of a watch list in canonical form."""
    ends = {name: getattr(watch, name) for name in ("source", "destination")}
    if any(text != "any" and ip_network(text).version == 4 for text in ends.values()):
        ends = {name: "0.0.0.0/0" if text == "any" else text for name, text in ends.items()}
    prefixes = {name: prefix(text) for name, text in ends.items()}
    return watch.model_dump() | prefixes | {"port": watch.ports, "last_port": None}


def _flow(flow: TrackedFlowSettings) -> tuple[Any, ...]:
    """A tracked flow in canonical form."""
    return ip_address(flow.src), ip_address(flow.dst), flow.every


_FORMS: dict[str, Callable[[Any], Any]] = {
    "watch": lambda entries: [_entry(each) for each in entries],
    "track": lambda flows: {_flow(each) for each in flows},
    "labelling": LabellingSettings.model_dump,
}
"""Parts that are compared by their meaning."""


def _close(one: Any, other: Any) -> bool:
    """Whether two trees are equal, except for the rounding of numbers in switches."""
    if isinstance(one, float) and isinstance(other, int | float):
        return abs(one - other) < _CLOSE
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_close(one[key], other[key]) for key in one)
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(_close, one, other))
    return bool(one == other)
