"""Batches of columns that DuckDB reads one at a time, so that a file is written without all rows in memory.

They are handed over by Arrow's C stream interface, filled in with ctypes, because pyarrow is optional.
https://arrow.apache.org/docs/format/CStreamInterface.html
"""

from __future__ import annotations

import ctypes
import errno
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt

Buffer = npt.NDArray[Any]
FORMATS = {"u1": "C", "u2": "S", "u4": "I", "u8": "L"}
"""Arrow's formats of unsigned integers."""
TIMESTAMP_NS = "tsn:"
_NULLABLE = 2


class _Schema(ctypes.Structure):
    pass


class _Array(ctypes.Structure):
    pass


class _Stream(ctypes.Structure):
    pass


_ReleaseSchema = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Schema))
_ReleaseArray = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Array))
_ReleaseStream = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Stream))
_GetSchema = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Stream), ctypes.POINTER(_Schema))
_GetNext = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Stream), ctypes.POINTER(_Array))
_GetLastError = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_Stream))
_Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(_Schema))),
    ("dictionary", ctypes.POINTER(_Schema)),
    ("release", _ReleaseSchema),
    ("private_data", ctypes.c_void_p),
]
_Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_Array))),
    ("dictionary", ctypes.POINTER(_Array)),
    ("release", _ReleaseArray),
    ("private_data", ctypes.c_void_p),
]
_Stream._fields_ = [
    ("get_schema", _GetSchema),
    ("get_next", _GetNext),
    ("get_last_error", _GetLastError),
    ("release", _ReleaseStream),
    ("private_data", ctypes.c_void_p),
]


@dataclass(frozen=True, slots=True)
class Column:
    """Values of a column, as Arrow describes them."""

    format: str
    length: int
    buffers: tuple[Buffer | None, ...]
    """Contiguous; the first has a bit for each value that is not NULL (None: no value is)."""
    children: tuple[Column, ...] = ()
    dictionary: Column | None = None
    """The values, if `buffers` are their indices."""
    name: str = ""


def numbers(
    name: str, values: Buffer, valid: npt.NDArray[np.bool_] | None = None, format: str = ""
) -> Column:
    """Unsigned integers, or values of another format; `valid` [n] says which are not NULL (None: all)."""
    buffers = bits_of(valid), np.ascontiguousarray(values)
    return Column(format or FORMATS[values.dtype.str[1:]], len(values), buffers, name=name)


def texts(data: Buffer, lengths: Buffer, valid: npt.NDArray[np.bool_] | None = None) -> Column:
    """Texts with these lengths, whose bytes are one after another in `data`."""
    return Column("u", len(lengths), (bits_of(valid), _offsets(lengths), np.ascontiguousarray(data)))


def coded(name: str, codes: Buffer, meanings: Column) -> Column:
    """Values given by their indices in `meanings`, unsigned integers. No index may be NULL, which DuckDB 1.5
    ignores; one of `meanings` may.
    """
    return replace(numbers(name, codes), dictionary=meanings)


def lists(name: str, values: Column, lengths: Buffer, valid: npt.NDArray[np.bool_]) -> Column:
    """Lists with these lengths, whose values are one after another."""
    return Column("+l", len(lengths), (bits_of(valid), _offsets(lengths)), (values,), name=name)


def _offsets(lengths: Buffer) -> Buffer:
    """Where each value begins, and where the last one ends."""
    return np.append(0, np.cumsum(lengths)).astype(np.int32)


def bits_of(valid: npt.NDArray[np.bool_] | None) -> Buffer | None:
    """A bit for each value; None if all are valid."""
    return None if valid is None or valid.all() else np.packbits(valid, bitorder="little")


class ColumnStream:
    """Batches of columns; the next one is made when DuckDB asks for it, and the one before is let go.

    It serves one statement: `connection.register(name, stream.capsule)`. Keep the stream until the statement
    has ended. If a batch cannot be made, the statement fails, and `error` is the cause.
    """

    def __init__(self, schema: Sequence[Column], batches: Iterator[Sequence[Column]]) -> None:
        """`schema`: columns, of any length, with the formats and names of those in `batches`."""
        self.error: BaseException | None = None
        self._schema, self._batches = Column("+s", 0, (None,), tuple(schema)), batches
        self._kept: list[Any] = []
        """The schema, and the dictionaries of all batches: DuckDB takes two at one address for the same."""
        self._text = ctypes.create_string_buffer(b"a batch could not be made")
        self._stream = _Stream(
            _GetSchema(self._get_schema),
            _GetNext(self._get_next),
            _GetLastError(lambda stream: ctypes.addressof(self._text)),
            _ReleaseStream(_released),
        )
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self.capsule: Any = new(ctypes.addressof(self._stream), b"arrow_array_stream", None)
        """The stream as Arrow's PyCapsule interface wants it."""

    def _get_schema(self, stream: Any, out: Any) -> int:
        made = _schema(self._schema, self._kept)
        ctypes.memmove(out, ctypes.byref(made), ctypes.sizeof(made))
        return 0

    def _get_next(self, stream: Any, out: Any) -> int:
        try:
            batch = next(self._batches, None)
            made = _Array()
            if batch is not None:
                held: list[Any] = []
                made = _array(Column("+s", batch[0].length, (None,), tuple(batch)), held, self._kept)
                made.private_data = next(_numbers)
                _held[made.private_data] = held
            ctypes.memmove(out, ctypes.byref(made), ctypes.sizeof(made))
        except BaseException as error:  # C has no exceptions: who runs the statement raises it
            self.error = error
            return errno.EIO
        return 0


@_ReleaseSchema
def _released_schema(schema: Any) -> None:
    schema.contents.release = _ReleaseSchema()


_held: dict[int, list[Any]] = {}
"""What the batches that DuckDB has point to, by their `private_data`."""
_numbers = count(1)


@_ReleaseArray
def _released_array(array: Any) -> None:
    array.contents.release = _ReleaseArray()
    _held.pop(array.contents.private_data, None)


def _released(stream: Any) -> None:
    stream.contents.release = _ReleaseStream()


def _schema(column: Column, kept: list[Any]) -> _Schema:
    children = [_schema(child, kept) for child in column.children]
    made = _Schema(column.format.encode(), column.name.encode(), None, _NULLABLE, len(children))
    made.children = pointers = (ctypes.POINTER(_Schema) * len(children))(*map(ctypes.pointer, children))
    if column.dictionary is not None:
        made.dictionary = ctypes.pointer(_schema(column.dictionary, kept))
    made.release = _released_schema
    kept += [made, pointers]
    return made


def _array(column: Column, held: list[Any], dictionaries: list[Any]) -> _Array:
    children = [_array(child, held, dictionaries) for child in column.children]
    made = _Array(
        column.length, -1 if column.buffers[0] is not None else 0, 0, len(column.buffers), len(children)
    )
    buffers = [None if buffer is None else buffer.ctypes.data for buffer in column.buffers]
    made.buffers = places = (ctypes.c_void_p * len(buffers))(*buffers)
    made.children = pointers = (ctypes.POINTER(_Array) * len(children))(*map(ctypes.pointer, children))
    if column.dictionary is not None:
        dictionaries.append(dictionary := _array(column.dictionary, held, dictionaries))
        made.dictionary = ctypes.pointer(dictionary)
    made.release = _released_array
    held += [made, places, pointers, column]
    return made
