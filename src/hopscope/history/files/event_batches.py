"""EVENT records as the columns of a segment."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ...detect.records import NO_NODE, NO_PORT, PATH_PART, ClearReason, Kind, Metric
from ...wire.address import MAPPED, address
from ...wire.records import Records
from ..columns import COLUMNS
from .arrow_stream import TIMESTAMP_NS, Column, coded, lists, numbers, texts

_NO_CODE = 256
"""A code that no event has."""
_OCTETS = np.array([f".{octet}" for octet in range(256)], "S4").view(np.uint8).reshape(-1, 4)
"""A point and the digits of each octet, filled up with 0."""


def columns_of(events: Records) -> list[Column]:
    """The columns.COLUMNS of EVENT records [n]."""
    in_flow = events["ip_version"] != 0
    kind = events["kind"]
    reasons = np.where(kind == Kind.CLEARED, events["reason"], np.uint16(_NO_CODE))
    made = {
        "time": numbers("time", events["time_ns"], format=TIMESTAMP_NS),
        "kind": coded("kind", kind, _labels("kind", Kind)),
        "metric": coded("metric", events["metric"], _labels("metric", Metric)),
        "reason": coded("reason", reasons, _labels("reason", ClearReason)),
        "path": _paths(events),
        **{
            name: numbers(name, events[name], events[name] != absent)
            for name, absent in (("node_id", NO_NODE), ("port", NO_PORT), ("switch_ns", 0), ("flow_id", 0))
        },
        **{name: numbers(name, events[name], in_flow) for name in ("sport", "dport", "proto")},
        **{side: _addresses(side, events[f"{side}_hi"], events[f"{side}_lo"]) for side in ("src", "dst")},
    }
    return [made[name] if name in made else numbers(name, events[name]) for name, _ in COLUMNS]


@lru_cache
def _labels(column: str, members: Any) -> Column:
    """The label of each code; that of an unknown code has its number, as in `kind_23`. NULL for `none` and
    _NO_CODE.
    """
    known = {member.value: member.label for member in members}
    labels = [known.get(code, f"{column}_{code}").encode() for code in range(_NO_CODE)] + [b"none"]
    valid = np.array([label != b"none" for label in labels])
    return texts(np.frombuffer(b"".join(labels), np.uint8), np.array(list(map(len, labels))), valid)


def _addresses(name: str, high: npt.NDArray[np.uint64], low: npt.NDArray[np.uint64]) -> Column:
    """Texts of addresses; NULL if both halves are 0. Those of neighbours that are the same are made once."""
    is_new = np.append(True, (high[1:] != high[:-1]) | (low[1:] != low[:-1]))[: len(high)]
    codes = np.cumsum(is_new, dtype=np.uint32) - np.uint32(1)
    high, low = high[is_new], low[is_new]
    valid = (high != 0) | (low != 0)
    characters = np.zeros((len(low), 40), np.uint8)
    is_v4 = (high == 0) & (low >> np.uint64(32) == MAPPED >> 32)
    octets = low[is_v4].astype(">u4").view(np.uint8).reshape(-1, 4)
    characters[is_v4, :16] = _OCTETS[octets].reshape(-1, 16)
    characters[is_v4, 0] = 0  # the first point
    other = valid & ~is_v4
    names = [address(*pair) for pair in zip(high[other].tolist(), low[other].tolist(), strict=True)]
    characters[other] = np.array(names, "S40").view(np.uint8).reshape(-1, 40)
    used = characters != 0
    return coded(name, codes, texts(characters[used], np.count_nonzero(used, axis=1), valid))


def _paths(events: Records) -> Column:
    """Paths of events that have one; NULL for others."""
    has_path = (events["metric"] == Metric.FLOW_PATH) | (events["kind"] == Kind.LOOP)
    rest = np.maximum(0, events["hop_count"].astype(np.int32) - events["hop"])
    lengths = np.where(has_path, np.minimum(rest, PATH_PART), 0)
    at = np.flatnonzero(has_path)
    nodes = events["path"][at][np.arange(PATH_PART) < lengths[at, None]]
    return lists("path", numbers("item", nodes), lengths, has_path)
