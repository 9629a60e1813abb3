"""Renders lines of text, or messages of protocol buffers, from columns. All have the same parts in the same
order; a part may be limited to some lines.

Rendering an event takes 1.6 us; formatting it in Python took 11 us (`bench/export_influx.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from ..detect.records import PATH_PART, ClearReason, Kind, Metric
from ..wire.records import Records

Mask = npt.NDArray[np.bool_]
Column = npt.NDArray[Any]
_NUMBER, _HEXADECIMAL, _ADDRESS, _VARINT, _FIXED = 20, 16, 39, 10, 8
"""Maximum number of bytes of a part."""
_LENGTH_DELIMITED = 2
"""Wire type of a message (protobuf.dev/programming-guides/encoding)."""
_DEPTH = 16
"""Maximum nesting depth of messages."""


class Lines:
    """`count` lines: add their parts from left to right, then call `encoded`.

    Columns have `count` unsigned integers below 2**64; `where`, bool [count], selects the lines that have the
    part, by default all.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._parts: list[tuple[int, int, int, int]] = []
        self._columns: list[Column] = []
        self._masks: list[Mask] = [np.ones(count, bool)]
        self._mask_of: dict[int, int] = {}
        self._texts: list[bytes] = []
        self._numbers: list[Column] = []
        self._listed = 0
        self._room = 0

    def text(self, text: str | bytes, where: Mask | None = None) -> None:
        """A constant text, or constant bytes."""
        self.choice([text], None, where)

    def choice(self, texts: Sequence[str | bytes], index: Column | None, where: Mask | None = None) -> None:
        """The text with a line's index; None: the only text. `index` need not be valid where `where` is
        False.
        """
        from .rendering_kernel import CHOICE, NO_COLUMN

        first = len(self._texts)
        room = self._keep(texts)
        if index is not None and where is not None:
            index = np.where(where, index, 0)
        self._add(
            int(CHOICE),
            where,
            first,
            int(NO_COLUMN) if index is None else self._column(index),
            room,
        )

    def number(self, values: Column, where: Mask | None = None) -> None:
        """A number in decimal."""
        from .rendering_kernel import NUMBER

        self._add(int(NUMBER), where, self._column(values), 0, _NUMBER)

    def hexadecimal(self, values: Column, where: Mask | None = None) -> None:
        """A number as 16 hexadecimal digits."""
        from .rendering_kernel import HEXADECIMAL

        self._add(int(HEXADECIMAL), where, self._column(values), 0, _HEXADECIMAL)

    def address(self, high: Column, low: Column, where: Mask | None = None) -> None:
        """An address held as two words (`wire.address`)."""
        from .rendering_kernel import ADDRESS

        self._add(int(ADDRESS), where, self._column(high), self._column(low), _ADDRESS)

    def numbers(self, values: Column, first: Column, end: Column, where: Mask | None = None) -> None:
        """values[first:end], separated by commas."""
        from .rendering_kernel import NUMBERS

        self._list(int(NUMBERS), values, first, end, _NUMBER, where)

    def choices(
        self, texts: Sequence[str], index: Column, first: Column, end: Column, where: Mask | None = None
    ) -> None:
        """The texts of the numbers index[first:end], separated by commas."""
        from .rendering_kernel import CHOICES

        base = len(self._texts)
        self._list(int(CHOICES), index + base, first, end, self._keep(texts), where)

    def joined(
        self, texts: Sequence[bytes], index: Column, first: Column, end: Column, where: Mask | None = None
    ) -> None:
        """The texts of the numbers index[first:end], one after the other."""
        from .rendering_kernel import JOINED

        base = len(self._texts)
        self._list(int(JOINED), index + base, first, end, self._keep(texts), where)

    def varint(self, values: Column, where: Mask | None = None) -> None:
        """A number as a varint of protocol buffers."""
        from .rendering_kernel import VARINT

        self._add(int(VARINT), where, self._column(values), 0, _VARINT)

    def fixed(self, values: Column) -> None:
        """A number as eight bytes, the lowest first."""
        from .rendering_kernel import FIXED

        self._add(int(FIXED), None, self._column(values), 0, _FIXED)

    @contextmanager
    def message(self, field: int, where: Mask | None = None) -> Iterator[None]:
        """Parts added within the context are the value of a protobuf field: a message or a string."""
        from .rendering_kernel import BEGIN, END

        self._add(int(BEGIN), where, field << 3 | _LENGTH_DELIMITED, 0, 2 * _VARINT)
        yield
        self._add(int(END), where, 0, 0, 0)

    def _list(
        self, code: int, values: Column, first: Column, end: Column, room: int, where: Mask | None
    ) -> None:
        longest = int((end - first).max(initial=0))
        at = np.uint64(self._listed)
        self._numbers.append(values.astype(np.uint64))
        self._listed += len(values)
        begins, ends = (self._column(each.astype(np.uint64) + at) for each in (first, end))
        self._add(code, where, begins, ends, longest * (room + 1))

    def _keep(self, texts: Sequence[str | bytes]) -> int:
        """Add texts; returns the length of the longest in bytes."""
        coded = [text.encode("utf-8", "replace") if isinstance(text, str) else text for text in texts]
        self._texts.extend(coded)
        return max(map(len, coded), default=0)

    def encoded(self) -> bytes:
        """All lines, concatenated; line ends have to be added as parts."""
        from ..base.kernels.jit import readonly
        from .rendering_kernel import render

        bounds = np.zeros(len(self._texts) + 1, np.uint64)
        np.cumsum([len(text) for text in self._texts], out=bounds[1:])
        out = np.empty(self._count * self._room, np.uint8)
        first = render(
            readonly(np.array(self._parts, np.uint64).reshape(-1, 4)),
            readonly(np.array(self._columns, np.uint64).reshape(len(self._columns), self._count)),
            readonly(np.array(self._masks)),
            readonly(np.frombuffer(b"".join(self._texts), np.uint8)),
            readonly(bounds),
            readonly(np.concatenate([np.empty(0, np.uint64), *self._numbers])),
            np.empty(_DEPTH, np.uint64),
            out,
        )
        return out[int(first) :].tobytes()

    def _add(self, code: int, where: Mask | None, first: int, second: int, room: int) -> None:
        mask = 0
        if where is not None:
            mask = self._mask_of.setdefault(id(where), len(self._masks))
            if mask == len(self._masks):
                self._masks.append(where)  # kept alive, so that no other mask gets its id
        self._parts.append((code, mask, first, second))
        self._room += room

    def _column(self, values: Column) -> int:
        self._columns.append(values)
        return len(self._columns) - 1


def labels_by_code(known: type[Kind | Metric | ClearReason]) -> list[str]:
    """Labels by code, 256 of them; the number for an unknown code."""
    labels = {one.value: one.label for one in known}
    return [labels.get(code, str(code)) for code in range(256)]


def ports_of_nodes(node: Column, port: Column) -> tuple[list[tuple[int, int]], Column]:
    """The distinct (node, port) pairs of events, and the index of each event's pair. An
    unknown port becomes 2^32 - 1.
    """
    keys = node.astype(np.uint64) << np.uint64(32) | port.astype(np.uint32)
    pairs, index = np.unique(keys, return_inverse=True)
    return [(pair >> 32, pair & 0xFFFFFFFF) for pair in pairs.tolist()], index


def path_columns(
    events: Records, lengths: Column, where: Mask, whole: Mapping[tuple[int, int], list[int]]
) -> tuple[Column, Column, Column]:
    """Nodes of all paths, concatenated, and where the path of each event begins and ends, int64 [n].

    `lengths` [n]: number of nodes in an event's own record; `whole`: the `long_paths`, some of which may be
    events in `where`.
    """
    nodes = [events["path"].ravel()]
    first = np.arange(len(events)) * PATH_PART
    end = first + lengths
    at = nodes[0].size
    for row in np.flatnonzero(where).tolist() if whole else ():
        if path := whole.get((int(events["shard"][row]), int(events["sequence"][row]))):
            nodes.append(np.array(path, np.uint32))
            first[row], end[row] = at, at + len(path)
            at += len(path)
    return np.concatenate(nodes), first, end
