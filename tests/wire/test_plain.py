"""Kernels as plain Python: one source gives the same compiled and not, within 64 bits and all bounds."""

from __future__ import annotations

import operator
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hopscope.base.kernels import plain
from hopscope.wire.decode.plain import PlainDecoder, decode_plain
from hopscope.wire.dialect import DIALECTS
from hopscope.wire.records import FRAME, HOP, REPORT, FrameBatch
from support.packets.corpus import corpus
from support.packets.mutants import Mutator, difference

TOP = (1 << 64) - 1
KERNELS = "hopscope.wire.decode.decode_kernel"
MEMORY = plain.load("hopscope.wire.decode.trail_kernel").MEMORY


class Word(int):
    """A number of 64 bits without a sign: it wraps around, as in compiled code."""


def _operators(name: str) -> None:
    compute = getattr(operator, name)
    bare = name.rstrip("_")
    setattr(Word, f"__{bare}__", lambda self, other: Word(compute(int(self), int(other)) & TOP))
    setattr(Word, f"__r{bare}__", lambda self, other: Word(compute(int(other), int(self)) & TOP))


for _name in ("add", "sub", "mul", "floordiv", "mod", "and_", "or_", "xor", "lshift", "rshift"):
    _operators(_name)
Word.__invert__ = lambda self: Word(int(self) ^ TOP)  # type: ignore[method-assign]


class Words(list[Word]):
    """Numbers of 64 bits; an index below 0, or part of a slice beyond the end, is an error too."""

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            assert 0 <= index.start <= index.stop <= len(self)
        elif not 0 <= index < len(self):
            raise IndexError(f"index {index} of {len(self)}")
        return super().__getitem__(index)


def wrapping() -> Any:
    """The decoder's kernel on `Word`."""
    twins = {name: getattr(plain, name) for name in vars(plain) if not name.startswith("_")}
    jit = SimpleNamespace(**twins)
    for name in ("U8", "U16", "U32", "U64"):
        setattr(jit, name, Word)
    jit.mix64 = lambda x: Word(plain.mix64(int(x)))
    return plain.Loader(jit).load(KERNELS).decode_frames


def mutants(name: str, count: int) -> Iterator[tuple[Any, FrameBatch]]:
    """Damaged frames of a dialect, with and without packets."""
    mutator = Mutator(corpus(DIALECTS[name]))
    for packets in (False, True):
        yield replace(DIALECTS[name], packets=packets), mutator.block(7_000, count)


@pytest.mark.parametrize(
    "name", ["spec", "cablelabs", "host-int", "int-2015", "geant-dpdk", "laofan13", "h3c"]
)
def test_wrapping_around_changes_nothing(name: str) -> None:
    """Numbers of 64 bits and numbers of any size give the same, and no index leaves its frame or block."""
    run = wrapping()
    for dialect, batch in mutants(name, 150):
        table, plans = Words(map(Word, dialect.table().tolist())), Words([Word()] * MEMORY)
        expected = decode_plain(batch, dialect)
        counted = 0
        for frame in batch.frames:
            start, length = int(frame["offset"]), int(frame["length"])
            buf = Words(map(Word, batch.arena[start : start + length].tolist()))
            alone = plain.record_class(FRAME)(0, length=length, link=int(frame["link"]))
            reports, hops = plain.Rows(REPORT, length // 4 + 2), plain.Rows(HOP, length // 4 + 2)
            trails, counts = np.zeros((41, 1), np.uint64), [Word()] * 3
            assert run(buf, [alone], Word(), table, plans, reports, hops, trails, counts) == 1
            for row in range(counts[0]):
                wanted = expected.reports[counted + row]
                for field in REPORT.names or ():
                    if field not in ("packet", "first_hop"):
                        assert getattr(reports[row], field) == wanted[field], field
            counted += counts[0]
        assert counted == len(expected)


def test_a_number_of_64_bits_wraps_around() -> None:
    """It is what compiled code has, from either side of an operator."""
    assert Word(3) - 4 == 3 - Word(4) == TOP
    assert (Word(1) << 64, Word(TOP) + 1, ~Word(0)) == (0, 0, TOP)
    with pytest.raises(IndexError):
        Words([Word(1)])[-1]


def test_rows_end() -> None:
    """A block of records has room for what it says, and no more."""
    rows = plain.Rows(HOP, 2)
    rows[1].node_id = 7
    assert (rows[1].node_id, rows[0].node_id, len(rows)) == (7, 0, 2)
    for index in (2, -1):
        with pytest.raises(IndexError):
            rows[index]
    with pytest.raises(AttributeError):
        rows[0].nothing = 1


def test_a_module_is_loaded_beside_the_compiled_one() -> None:
    """The plain module is another object, holds functions, and is the same at every load."""
    module = plain.load(KERNELS)
    assert module is plain.load(KERNELS)
    assert sys.modules.get(KERNELS) is not module
    assert module.decode_frames.__code__.co_filename.endswith("decode_kernel.py")
    with pytest.raises(ModuleNotFoundError):
        plain.load("hopscope.wire.decode.nothing_kernel")


def test_the_twins_of_the_intrinsics() -> None:
    """Little-endian words, short copies and short reads, at any position."""
    octets = bytearray(range(20))
    assert plain.load64(octets, 3) == int.from_bytes(bytes(range(3, 11)), "little")
    plain.store64(octets, 1, 0x0102030405060708)
    assert octets[1:9] == bytes([8, 7, 6, 5, 4, 3, 2, 1])
    assert plain.few(octets, 18, 2) == 18 | 19 << 8
    plain.move(octets, 0, bytes([9, 9, 9]), 0, 3)
    assert octets[:4] == bytes([9, 9, 9, 6])
    assert plain.be64(bytes(range(8)), 0) == 0x0001020304050607
    with pytest.raises(IndexError):
        plain.be32(bytes(3), 0)


def test_no_compiler_is_imported() -> None:
    """Plain decoding starts without Numba."""
    code = (
        "import sys; from hopscope.wire.decode.plain import PlainDecoder; PlainDecoder();"
        "sys.exit('numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_decoder_is_used_again() -> None:
    """What one batch leaves behind changes nothing in the next."""
    dialect = DIALECTS["spec"]
    batch = Mutator(corpus(dialect)).exact()
    decoder = PlainDecoder(dialect)
    first, again = decoder.decode(batch), decoder.decode(batch)
    assert not difference(first, again)
    assert np.count_nonzero(first.reports["reason"] == 0) > 700
