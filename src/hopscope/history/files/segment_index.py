"""The index of a segment: a small file beside it, by which a query skips the parts that cannot have its rows.

NAME.parquet.index describes chunks of CHUNK_EVENTS rows: their sequences and times, kinds and metrics, and
a Bloom filter of the flow ids, addresses, nodes, ports, and ports of nodes in them. A segment whose index is
missing or damaged is read whole; the archive writes a missing one.

    HEADER | CHUNK [chunks] | uint64 [blocks, 8]
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...detect.places import UNKNOWN, ports_of_events
from ...detect.records import NO_NODE, PATH_PART, Kind, Metric
from ...wire.records import Records
from .names import INDEX, SegmentFile, write_file

CHUNK_EVENTS = 16_384
"""Rows of a chunk. A chunk is a row group of the segment, the smallest unit that DuckDB reads."""
EARLIEST, LATEST = -(2**63), 2**63 - 1
_LOW = 2**64 - 1

ROW = "file_row_number"
"""Column with the number of a row in its file."""

_MAGIC = b"HOPSIDX3"
_BY_SEQUENCE = b"HOPSIDX2"
"""Magic of an earlier index, whose chunks are ranges of sequences instead of rows."""
_WITHOUT_PLACES = b"HOPSIDX1"
"""The same, whose filters have nodes and ports, but not ports of nodes."""
HEADER = np.dtype(
    [("magic", "S8"), ("chunks", "<u4"), ("blocks", "<u4"), ("chunks_crc", "<u4"), ("blocks_crc", "<u4")]
)
"""Number and CRC-32 of the chunks, and of the blocks."""
CHUNK = np.dtype(
    [
        ("first", "<u8"),
        ("last", "<u8"),
        ("oldest", "<i8"),
        ("newest", "<i8"),
        ("kinds", "<u8"),
        ("metrics", "<u8"),
        ("block", "<u4"),
        ("blocks", "<u4"),
        ("long", "<u4"),
        ("reserved", "<u4"),
    ]
)
"""Lowest and highest sequence, oldest and newest time (ns), a bit for each kind and metric, the first block
of the Bloom filter and their number, and whether the chunk has records of a path of more than PATH_PART
nodes.
"""

PART_FIELDS = ["first", "last", "oldest", "newest", "long"]
"""Fields of a CHUNK that become a `Part`."""
_BLOCK_BITS = 512
_BITS_PER_KEY = 16
_MAX_BLOCKS = 4096
_PROBES = 4
"""Bits of a key, all in one block. About 1 in 400 chunks is read for a key that it does not have."""

Keys = npt.NDArray[np.uint64]
_FLOW, _ADDRESS, _NODE, _PORT, _PLACE = (np.uint64(salt << 56) for salt in (0x11, 0x22, 0x33, 0x44, 0x55))


@dataclass(frozen=True, slots=True)
class Criteria:
    """Conditions that every row of a query's result meets; a chunk that cannot have such rows is not read."""

    start_ns: int = EARLIEST
    end_ns: int = LATEST
    """Range of times, inclusive."""
    kinds: int = 0
    metrics: int = 0
    """Bit masks: a bit for each kind, and each metric; 0: any."""
    keys: tuple[tuple[int, ...], ...] = ()
    """Groups of keys; a row has at least one key of each group."""
    places: tuple[int, ...] = ()
    """One more group of keys, of ports of nodes; empty: any."""
    on_path: bool = False
    """Whether a key may be anywhere on a path. If so, chunks with records of long paths are always read."""
    since: tuple[tuple[int, int], ...] = ()
    """(shard, first sequence) pairs; shards that are not listed have no limit."""


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of a segment that a query may need: their lowest and highest sequence, and their oldest and newest
    time (ns).
    """

    segment: SegmentFile
    first: int
    last: int
    oldest: int = EARLIEST
    newest: int = LATEST
    long: bool = True
    """Whether it may have records of a path of more than PATH_PART nodes."""
    begin: int | None = None
    """Number of the first row; None: all rows with these sequences."""

    @property
    def range(self) -> tuple[str, int, int]:
        """A column, and the range of its values, inclusive, that the rows have."""
        if self.begin is None:
            return "sequence", self.first, self.last
        return ROW, self.begin, self.begin + CHUNK_EVENTS - 1

    @classmethod
    def whole(cls, segment: SegmentFile) -> Part:
        """All rows of a segment."""
        return cls(segment, segment.first, segment.last)


class SegmentIndex:
    """The index of one segment."""

    def __init__(
        self, segment: SegmentFile, chunks: Records, blocks: npt.NDArray[np.uint8], head: Any
    ) -> None:
        """`head`: the HEADER, with the checksum that undamaged `blocks` have."""
        self.segment, self.chunks = segment, chunks
        self._blocks, self._crc = blocks, int(head["blocks_crc"])
        self._has_places = head["magic"] != _WITHOUT_PLACES
        self._of_rows = head["magic"] == _MAGIC
        self._filters: npt.NDArray[np.uint64] | None = None

    def parts(self, criteria: Criteria) -> Iterator[Part]:
        """The chunks that may have rows that meet the criteria."""
        rows = self.chunks
        may = may_have(rows, criteria, self.segment.shard)
        places = [criteria.places] if criteria.places and self._has_places else []
        for group in (*criteria.keys, *places):
            found = rows["long"] != 0 if criteria.on_path else np.zeros(len(rows), bool)
            for key in group:
                found = found | self._has(np.uint64(key))
            may &= found
        begins = (np.flatnonzero(may) * CHUNK_EVENTS).tolist()
        for begin, described in zip(begins, rows[may][PART_FIELDS].tolist(), strict=True):
            first, last, oldest, newest, long = described
            rows_from = begin if self._of_rows else None
            yield Part(self.segment, first, last, oldest, newest, bool(long), rows_from)

    def _has(self, key: np.uint64) -> npt.NDArray[np.bool_]:
        """bool [chunks]: which chunks may have a key."""
        rows = self.chunks
        block = rows["block"] + (int(key) >> 40 & rows["blocks"] - 1)
        bits = _probes(np.array([key]))[0]
        words = self._checked()[block][:, bits >> 6]
        found: npt.NDArray[np.bool_] = (words >> (bits & 63).astype(np.uint64) & np.uint64(1)).all(axis=1)
        return found

    def _checked(self) -> npt.NDArray[np.uint64]:
        """The filters, uint64 [blocks, 8]; if they are damaged, all bits are set, so
        that they match any key.
        """
        if self._filters is None:
            is_whole = zlib.crc32(self._blocks.data) == self._crc
            filters = np.asarray(self._blocks).view(np.uint64).reshape(-1, 8)
            self._filters = filters if is_whole else np.full_like(filters, _LOW)
        return self._filters


def may_have(chunks: Records, criteria: Criteria, shard: int) -> npt.NDArray[np.bool_]:
    """bool [chunks]: which chunks of a shard may have rows that meet the criteria, except `keys` and
    `places`.
    """
    may: npt.NDArray[np.bool_] = (chunks["newest"] >= criteria.start_ns) & (
        chunks["oldest"] <= criteria.end_ns
    )
    if criteria.kinds:
        may &= chunks["kinds"] & np.uint64(criteria.kinds) != 0
    if criteria.metrics:
        may &= chunks["metrics"] & np.uint64(criteria.metrics) != 0
    for of_shard, first in criteria.since:
        if of_shard == shard:
            may &= chunks["last"] >= first
    return may


def flow_key(flow_id: int) -> int:
    """The key of a flow id."""
    return int(_flow_keys(np.array([flow_id & _LOW], np.uint64))[0])


def address_key(number: int) -> int:
    """The key of a 128-bit address."""
    halves = np.array([number >> 64, number & _LOW], np.uint64)
    return int(_address_keys(halves[:1], halves[1:])[0])


def node_key(node: int) -> int:
    """The key of a node id."""
    return int(_mixed(np.array([node & _LOW], np.uint64) | _NODE)[0])


def port_key(port: int) -> int:
    """The key of a port number."""
    return int(_mixed(np.array([port & _LOW], np.uint64) | _PORT)[0])


def place_key(node: int, port: int) -> int:
    """The key of a port of a node."""
    return int(place_keys(np.array([node], np.uint64), np.array([port], np.uint64))[0])


def index_path(path: Path) -> Path:
    """Path of the index of a segment."""
    return path.with_name(path.name + INDEX)


class IndexWriter:
    """Describes the chunks of a segment, one after another."""

    def __init__(self) -> None:
        self._rows: list[Records] = []
        self._filters: list[npt.NDArray[np.uint64]] = []
        self._blocks = 0

    def add(self, events: Records) -> None:
        """The next chunk, EVENT records in the order of its rows."""
        row = np.zeros(1, CHUNK)
        filters = _describe(row[0], events)
        row["block"], row["blocks"] = self._blocks, len(filters)
        self._rows.append(row)
        self._filters.append(filters)
        self._blocks += len(filters)

    def write(self, segment: SegmentFile) -> None:
        """Write the index of the segment with these chunks. OSError: it failed."""
        parts = [b"".join(array.tobytes() for array in arrays) for arrays in (self._rows, self._filters)]
        head = np.array([(_MAGIC, len(self._rows), self._blocks, *map(zlib.crc32, parts))], HEADER)
        write_file(index_path(segment.path), b"".join([head.tobytes(), *parts]))


def chunks_of(events: Records, size: int) -> list[Records]:
    """The records in chunks of `size`; the last one may be shorter."""
    return [events[at : at + size] for at in range(0, len(events), size)]


def read_index(segment: SegmentFile) -> SegmentIndex | None:
    """The index of a segment, or None if it is missing or damaged."""
    try:
        raw = np.memmap(index_path(segment.path), np.uint8, "r")
    except (OSError, ValueError):
        return None
    if len(raw) < HEADER.itemsize:
        return None
    head = raw[: HEADER.itemsize].view(HEADER)[0]
    begin = HEADER.itemsize + int(head["chunks"]) * CHUNK.itemsize
    if (
        head["magic"] not in (_MAGIC, _BY_SEQUENCE, _WITHOUT_PLACES)
        or len(raw) != begin + int(head["blocks"]) * 64
    ):
        return None
    chunks, blocks = np.array(raw[HEADER.itemsize : begin]), raw[begin:]
    if zlib.crc32(chunks.data) != head["chunks_crc"]:
        return None
    return SegmentIndex(segment, chunks.view(CHUNK), blocks, head)


def _describe(row: Any, events: Records) -> npt.NDArray[np.uint64]:
    """Fill in the CHUNK for these events, except `block` and `blocks`; returns its filter, uint64 [blocks,
    8].
    """
    describe(row, events)
    paths = events[(events["metric"] == Metric.FLOW_PATH) | (events["kind"] == Kind.LOOP)]
    rest = paths["hop_count"].astype(np.int64) - paths["hop"]
    is_node = np.arange(PATH_PART) < rest[:, None]
    nodes = np.concatenate([np.unique(events["node_id"]), np.unique(paths["path"][is_node])])
    of_events = ports_of_events(events)
    known = of_events != UNKNOWN
    flows = np.unique(events["flow_id"])
    places = place_keys(events["node_id"][known], of_events[known])
    keys = [
        np.unique(places),
        _flow_keys(flows[flows != 0]),
        _mixed(np.unique(nodes[nodes != NO_NODE]).astype(np.uint64) | _NODE),
        _mixed(np.unique(of_events[known]).astype(np.uint64) | _PORT),
    ]
    keys += [np.unique(_address_keys(events[f"{side}_hi"], events[f"{side}_lo"])) for side in ("src", "dst")]
    return _filter(np.concatenate(keys))


def describe(row: Any, events: Records) -> None:
    """Fill in the CHUNK for these events, except `block` and `blocks`."""
    row["first"], row["last"] = events["sequence"].min(), events["sequence"].max()
    row["oldest"], row["newest"] = events["time_ns"].min(), events["time_ns"].max()
    for name, bits in (("kind", "kinds"), ("metric", "metrics")):
        row[bits] = _bits(np.flatnonzero(np.bincount(events[name])))
    continues = (events["hop_count"].astype(np.int64) - events["hop"] > PATH_PART) | (events["hop"] != 0)
    row["long"] = bool((continues & (events["metric"] == Metric.FLOW_PATH)).any())


def _bits(codes: npt.NDArray[Any]) -> int:
    """A bit mask of these codes; 64 and above are left out."""
    return sum(1 << int(code) for code in codes if code < 64)


def _flow_keys(flow_ids: Keys) -> Keys:
    return _mixed(flow_ids ^ _FLOW)


def _address_keys(high: Keys, low: Keys) -> Keys:
    return _mixed(_mixed(high ^ _ADDRESS) ^ low)


def place_keys(nodes: npt.NDArray[Any], ports: npt.NDArray[Any]) -> Keys:
    """The keys of ports of nodes."""
    return _mixed(nodes.astype(np.uint64) | ports.astype(np.uint64) << np.uint64(32) | _PLACE)


def _mixed(keys: Keys) -> Keys:
    """Mix keys so that each bit of a key changes half of the result's bits
    (splitmix64, Steele et al. 2014).
    """
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Keys = keys ^ (keys >> np.uint64(31))
    return mixed


def _probes(keys: Keys) -> npt.NDArray[np.int64]:
    """int64 [n, _PROBES]: which bits of its block each key sets."""
    shifts = np.arange(0, 9 * _PROBES, 9, dtype=np.uint64)
    return (keys[:, None] >> shifts & np.uint64(_BLOCK_BITS - 1)).astype(np.int64)


def _filter(keys: Keys) -> npt.NDArray[np.uint64]:
    """uint64 [blocks, 8]: a Bloom filter of blocks of 512 bits; all bits of a key are in one block."""
    blocks = 1
    while blocks < _MAX_BLOCKS and blocks * _BLOCK_BITS < len(keys) * _BITS_PER_KEY:
        blocks *= 2
    bits = np.zeros((blocks, _BLOCK_BITS), bool)
    block = (keys >> np.uint64(40)).astype(np.int64) & (blocks - 1)
    bits[block[:, None], _probes(keys)] = True
    return np.packbits(bits, axis=1, bitorder="little").view(np.uint64)
