"""The severity of kinds of events, unless a rule of a destination states another."""

from __future__ import annotations

from ..detect.records import Kind

_INFO = (
    *(Kind.PATH_CHANGE, Kind.NEW_KEY, Kind.CHANGE, Kind.PUSH, Kind.VALUE, Kind.FLOW_RECORD, Kind.ADAPTED),
    *(Kind.LABEL_RECORD, Kind.MOVED, Kind.SOURCE_MOVED),
)
_BY_KIND: dict[int, str] = {kind: "info" if kind in _INFO else "warning" for kind in Kind}


def severity_of_kind(kind: int) -> str:
    """`info` or `warning`; `info` for an unknown kind."""
    return _BY_KIND.get(kind, "info")
