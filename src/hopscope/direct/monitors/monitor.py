"""Base of monitors: they turn observations into reports of one primitive, and query the resulting store."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ...base.hash_rows import mix64
from ...wire.dta.forms import Opcode
from ...wire.dta.records import DTA
from ...wire.observation import FLOW_BYTES
from ...wire.records import Records
from ..stores.answers import KeyAnswers, QueryOptions
from ..stores.keys import show_key
from ..stores.store import Layout

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.uint64]
COPIES = 2
"""Copies of each report of a key."""


@dataclass(slots=True)
class Reports:
    """DTA reports of one primitive, the input of a translator."""

    records: Records
    """DTA records, in order of time."""
    arena: Bytes
    """Their keys and data."""

    def __len__(self) -> int:
        return len(self.records)

    def number_lists_from(self, first: int) -> None:
        """Add `first` to the lists of all reports."""
        self.records["list"] += np.uint32(first)
        numbers = self.records["list"].astype(">u4").view(np.uint8).reshape(-1, 4)
        for byte in range(4):
            self.arena[self.records["key_at"] + np.uint32(byte)] = numbers[:, byte]


@dataclass(slots=True)
class MonitorAnswers(KeyAnswers):
    """Decoded answers of a monitor."""

    values: npt.NDArray[Any]
    """Decoded values, [keys, …]; 0 unless the status is FOUND."""


class Monitor:
    """A reporter with the state of its switches. `observe` takes observations in order of time; batch
    boundaries change no answer. Each subclass adds a `query` that reads a store.
    """

    name: ClassVar[str]
    primitive: ClassVar[str]
    """Name of the primitive (`primitive.named`)."""
    description: ClassVar[str]
    """Description of its reports."""
    sizes: ClassVar[str]
    """Bytes of a report's key and data, as text."""
    source: ClassVar[str]
    """The monitoring system, and the section of DTA that describes it."""
    key_bytes: ClassVar[int] = 0
    """Bytes of a report's key; 0: it has a list instead."""
    first_list: ClassVar[int] = 0
    """Number of its first list in reports; not 0 if another monitor's entries have the same length."""
    record: ClassVar[np.dtype[Any]] = np.dtype([])
    """Fields of a report's data, in order; there they are big-endian. Empty: only `decode` knows them."""
    needs_values: ClassVar[bool] = False
    """Whether a query needs the values that hops can have."""

    def layout(self, expected: int) -> Layout:
        """A store with room for `expected` keys or events, with few collisions."""
        raise NotImplementedError

    def observe(self, observations: Records) -> Reports:
        """Reports about OBSERVATION records."""
        raise NotImplementedError

    def flush(self) -> Reports:
        """Reports of the state that the switches still hold."""
        return no_reports()

    def stored_keys(self, key: bytes) -> list[bytes]:
        """The keys under which the answer to `key` is stored."""
        return [key]

    def subject(self, key: bytes) -> bytes:
        """The key to query for a report with this key."""
        return key

    def decode(self, data: bytes) -> dict[str, Any] | None:
        """The fields of a report's data, as JSON; None: the data is not from this monitor."""
        if not self.record.names or len(data) != self.record.itemsize:
            return None
        found, at = {}, 0
        for name in self.record.names:
            width = self.record[name].itemsize
            found[name] = _shown(name, data[at : at + width])
            at += width
        return found

    def answer(self, answers: list[dict[str, Any]], options: QueryOptions) -> dict[str, Any]:
        """The answer to a key from the answers to its `stored_keys`: with `decoded` if it is found."""
        (answer,) = answers
        if answer["status"] != "found":
            return answer
        if "data" in answer:
            decoded: Any = self.decode(bytes.fromhex(answer["data"]))
        elif "counter" in answer:
            decoded = self.decode(int(answer["counter"]).to_bytes(8))
        else:
            decoded = [self.decode(bytes.fromhex(entry)) for entry in answer.get("entries", ())]
            decoded = decoded if decoded and None not in decoded else None
        return answer if decoded is None else {**answer, "decoded": decoded}


def no_reports() -> Reports:
    """An empty batch of reports."""
    return Reports(np.zeros(0, DTA), np.zeros(0, np.uint8))


def reports(opcode: int, keys: Bytes, data: Bytes, **fields: npt.ArrayLike) -> Reports:
    """Reports with keys uint8 [reports, bytes] and data likewise; `fields` are other columns of DTA."""
    arena = np.concatenate([keys, data], axis=1)
    records = np.zeros(len(arena), DTA)
    records["opcode"] = opcode
    records["key_at"] = np.arange(len(arena), dtype=np.uint32) * np.uint32(arena.shape[1])
    records["data_at"] = records["key_at"] + np.uint32(keys.shape[1])
    records["key_bytes"], records["data_bytes"] = keys.shape[1], data.shape[1]
    for name, column in fields.items():
        records[name] = column
    return Reports(records, arena.reshape(-1))


def appended(lists: npt.ArrayLike, data: Bytes) -> Reports:
    """Reports that append entries, uint8 [reports, bytes], to lists: one for all, or integers [reports]."""
    which = np.broadcast_to(np.asarray(lists), len(data))
    return reports(Opcode.APPEND, packed((which, 4)), data, list=which)


def added(keys: Bytes, counters: npt.ArrayLike) -> Reports:
    """Reports that add integers [reports] to the counters of keys."""
    data = packed((counters, 8))
    return reports(Opcode.KEY_INCREMENT, keys, data, counter=counters, redundancy=COPIES)


def written(keys: Bytes, data: Bytes) -> Reports:
    """Reports that write data, uint8 [reports, bytes], under keys."""
    return reports(Opcode.KEY_WRITE, keys, data, redundancy=COPIES)


def packed(*columns: tuple[npt.ArrayLike, int] | Bytes) -> Bytes:
    """Columns side by side, uint8 [rows, bytes]: numbers with their width in bytes (big-endian, upper bits
    cut off), or bytes as they are.
    """
    parts = []
    for column in columns:
        if isinstance(column, tuple):
            numbers = np.atleast_1d(np.asarray(column[0])).astype(np.uint64)
            parts.append(numbers.astype(">u8").view(np.uint8).reshape(-1, 8)[:, 8 - column[1] :])
        else:
            parts.append(column)
    return np.ascontiguousarray(np.concatenate(parts, axis=1))


def packed_as(record: np.dtype[Any], columns: Iterable[npt.NDArray[Any]]) -> Bytes:
    """Columns as data of reports, uint8 [rows, bytes], each as wide as its field of `record`."""
    kinds = (record[name] for name in record.names or ())
    pairs = zip(columns, kinds, strict=True)
    return packed(*(column if kind.shape else (column, kind.itemsize) for column, kind in pairs))


def unpacked_as(record: np.dtype[Any], rows: Bytes) -> Records:
    """Data of reports, uint8 [rows, bytes], as records."""
    return np.ascontiguousarray(rows).view(record.newbyteorder(">")).reshape(-1).astype(record)


def unpacked(rows: Bytes, *widths: int) -> list[Numbers]:
    """Big-endian numbers of these widths, uint64 [rows] each."""
    columns, at = [], 0
    for width in widths:
        wide = np.zeros((len(rows), 8), np.uint8)
        wide[:, 8 - width :] = rows[:, at : at + width]
        columns.append(wide.view(">u8").reshape(-1).astype(np.uint64))
        at += width
    return columns


def flow_hash(flows: Bytes) -> Numbers:
    """Hash of each flow (uint8 [flows, 13]), uint64 [flows]."""
    high, low, rest = unpacked(flows, 8, 4, 1)
    return mix64(mix64(high) ^ (low << np.uint64(8) | rest))


_CHOICE = np.uint64(0xD1B54A32D192ED03)


def sampled(packets: npt.ArrayLike, rate: int) -> npt.NDArray[np.bool_]:
    """Choose one packet id in `rate`, by a hash that all switches share, bool [packets]."""
    mixed = mix64(np.asarray(packets, np.uint64) ^ _CHOICE)
    return np.asarray(mixed % np.uint64(rate) == 0)


def entering(observations: Records) -> Records:
    """Observations at the first switch: every packet once, whether it was dropped there or not."""
    return observations[observations["hop"] == 1]


def _shown(name: str, field: bytes) -> int | str:
    """A field of an answer: a flow, an address, or a number."""
    if name == "flow" and len(field) == FLOW_BYTES:
        return show_key(field)
    if name in ("source", "destination"):
        return str(ipaddress.IPv4Address(field))
    return int.from_bytes(field)
