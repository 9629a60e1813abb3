"""How severe a kind of event is, where no rule of a destination says otherwise."""

from __future__ import annotations

from ..detect.records import Kind

_INFO = (
    *(Kind.PATH_CHANGE, Kind.NEW_KEY, Kind.CHANGE, Kind.PUSH, Kind.VALUE, Kind.FLOW_RECORD, Kind.ADAPTED),
    *(Kind.LABEL_RECORD, Kind.MOVED, Kind.SOURCE_MOVED),
)
_BY_KIND: dict[int, str] = {kind: "info" if kind in _INFO else "warning" for kind in Kind}


def severity_of_kind(kind: int) -> str:
    """`info` or `warning`; an unknown kind is information."""
    return _BY_KIND.get(kind, "info")
