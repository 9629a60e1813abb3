"""Which rows of a table a request is about: filters, order and paging over record arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..wire import protocols
from ..wire.records import Records
from .text import UnreadableError, network

Mask = npt.NDArray[np.bool_]
FLOW_ORDER = {
    "latency": "latency_latest",
    "mean_latency": "latency_mean",
    "packets": "packets",
    "last_seen": "last_ns",
    "first_seen": "first_ns",
    "hops": "hop_count",
}
"""Names of orders of flows, and the field behind each."""


@dataclass(frozen=True, slots=True)
class FlowFilter:
    """What a flow must be; None: anything. Addresses are addresses or prefixes."""

    src: str | None = None
    dst: str | None = None
    prefix: str | None = None
    """Source or destination in it."""
    port: int | None = None
    """Source or destination port."""
    proto: str | None = None
    """Number or name."""

    def mask(self, rows: Records) -> Mask:
        """bool [rows] of FLOW or EVENT records. Raises UnreadableError, which names the filter."""
        kept = np.ones(len(rows), np.bool_)
        if self.src is not None:
            kept &= in_network(rows, "src", self.src)
        if self.dst is not None:
            kept &= in_network(rows, "dst", self.dst)
        if self.prefix is not None:
            kept &= in_network(rows, "src", self.prefix, "prefix") | in_network(
                rows, "dst", self.prefix, "prefix"
            )
        if self.port is not None:
            kept &= (rows["sport"] == self.port) | (rows["dport"] == self.port)
        if self.proto is not None:
            kept &= rows["proto"] == protocol(self.proto)
        return kept


def in_network(rows: Records, side: str, text: str, name: str | None = None) -> Mask:
    """Whether the address of `side` (src or dst) is in a network."""
    try:
        high, low, mask_high, mask_low = (np.uint64(part) for part in network(text))
    except UnreadableError as error:
        raise UnreadableError(f"{name or side}: {error}") from None
    found: Mask = (rows[f"{side}_hi"] & mask_high == high & mask_high) & (
        rows[f"{side}_lo"] & mask_low == low & mask_low
    )
    return found


def protocol(text: str) -> int:
    """IP protocol number of a number or a name."""
    number = protocols.NUMBERS.get(text.strip().lower())
    if (
        number is None
        and text.isascii()
        and text.strip().isdecimal()
        and len(text.strip()) <= 3
        and int(text) <= 255
    ):
        number = int(text)
    if number is None:
        raise UnreadableError(
            f"proto: expected 0 to 255 or {', '.join(protocols.NUMBERS)}, found {text[:30]!r}"
        )
    return number


def ordered(rows: Records, by: str, descending: bool, offset: int, limit: int) -> Records:
    """One page of FLOW rows in an order of FLOW_ORDER; by latency, flows without one come last."""
    field = FLOW_ORDER[by]
    if field == "latency_mean":
        key = rows["latency_sum"] / np.maximum(rows["latency_samples"], 1)
    else:
        key = rows[field].astype(np.float64)
    if by.endswith("latency"):
        key = np.where(rows["state"] & 2, key, -1.0 if descending else np.inf)
    end = offset + limit
    if descending:
        key = -key
    if end < len(rows) // 4:
        near = np.flatnonzero(key <= np.partition(key, end)[end])  # all that are equal: pages must join
        order = near[np.lexsort((rows["flow_id"][near], key[near]))]
    else:
        order = np.lexsort((rows["flow_id"], key))
    return rows[order[offset:end]]
