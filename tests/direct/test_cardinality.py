"""A primitive next to DTA's own: sketches count distinct elements as well as HyperLogLog promises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopscope.direct.primitive import WriterStart, load
from hopscope.direct.primitives.cardinality import CardinalityLayout, CardinalityWriter, estimate, registers
from hopscope.direct.stores.answers import QueryOptions
from hopscope.direct.stores.store import Store, StoreError
from hopscope.direct.translation.translator import Translator
from hopscope.direct.transport import MemoryTransport
from hopscope.rdma.records import VerbBlock
from hopscope.wire.dta.forms import Form
from hopscope.wire.dta.parser import DtaParser
from hopscope.wire.reasons import DtaReason
from hopscope.wire.records import FRAME, FrameBatch, Link, Records
from oracle import direct as twins
from support.direct.direct_make import as_bytes, dta

pytestmark = pytest.mark.kernel


def elements(sketch: int, first: int, count: int) -> tuple[Records, np.ndarray]:
    """Reports of distinct elements of 13 bytes."""
    keys = np.tile(as_bytes(np.array([sketch], np.uint64)), (count, 1))
    return dta(16, keys, as_bytes(np.arange(first, first + count, dtype=np.uint64), 13))


@pytest.mark.parametrize("precision", [6, 11, 14])
def test_estimates_are_within_their_error(precision: int) -> None:
    """From none to 200,000 elements: estimates at most 4 standard errors off; doubles change nothing."""
    store = Store.create(None, CardinalityLayout(sketches=3, precision=precision))
    translator = Translator([store.layout], MemoryTransport([store]))
    count = 0
    for more in (0, 1, 9, 90, 900, 9_000, 90_000, 100_000):
        reports, arena = elements(1, count, more)
        for _ in range(2):
            translator.translate(reports.copy(), arena)
        count += more
        found, error = estimate(registers(store, 1))
        assert abs(found - count) <= 4 * error + 1e-9, (precision, count)
    assert error == pytest.approx(found * 1.04 / 2 ** (precision / 2))
    assert estimate(registers(store, 0))[0] == 0


def test_estimates_are_without_bias() -> None:
    """The mean of 60 sketches of 3,000 elements is within 4 standard errors of the mean."""
    store = Store.create(None, CardinalityLayout(sketches=60, precision=6))
    translator = Translator([store.layout], MemoryTransport([store]))
    for sketch in range(60):
        translator.translate(*elements(sketch, sketch * 3000, 3000))
    found = np.array([estimate(registers(store, sketch))[0] for sketch in range(60)])
    assert abs(found.mean() - 3000) < 4 * 3000 * 1.04 / np.sqrt(64 * 60)
    union = np.maximum.reduce([registers(store, sketch) for sketch in range(60)])
    assert abs(estimate(union)[0] - 180_000) < 4 * estimate(union)[1]


@settings(max_examples=40)
@given(st.lists(st.binary(min_size=1, max_size=64), min_size=1, max_size=60), st.integers(0, 1 << 64 - 1))
def test_registers_are_those_of_the_plain_twin(found: list[bytes], seed: int) -> None:
    """The highest rank per register, of elements of any length; the filter sends each rise once."""
    layout = CardinalityLayout(sketches=2, precision=4, seed=seed)
    store, writer = Store.create(None, layout), CardinalityWriter(layout, [0])
    expected, rises = np.zeros(16, np.uint8), 0
    for element in found:
        h = twins.key_hash(element, seed)
        rank = min(61 - (h & (1 << 60) - 1).bit_length(), 32)
        rises += rank > expected[h >> 60]
        expected[h >> 60] = max(expected[h >> 60], rank)
        data = np.frombuffer(element, np.uint8)[None]
        reports, arena = dta(16, as_bytes(np.array([1], np.uint64)), data)
        block = VerbBlock.of(*writer.room(1))
        writer.write(reports, np.zeros(1, np.uint32), arena, block)
        MemoryTransport([store]).submit(block)
    assert (registers(store, 1) == expected).all()
    assert writer.counters == {"sent": rises, "filtered": len(found) - rises}
    again = CardinalityWriter(layout, [0])
    again.begin(0, WriterStart(1, store.memory))
    assert (again._highest[16:] == expected).all()
    again.begin(0, WriterStart(2))
    assert not again._highest.any()


def test_unfitting_values_are_rejected() -> None:
    """Sketches that are not there, keys of other lengths, no element: counted, and no write outside."""
    layout = CardinalityLayout(sketches=2, precision=4)
    writer = CardinalityWriter(layout, [0])
    for keys, data, reason in (
        ([0, 0, 0, 2], [1], DtaReason.BAD_LIST),
        ([255] * 4, [1], DtaReason.BAD_LIST),
        ([0, 0, 1], [1], DtaReason.BAD_LENGTH),
        ([0, 0, 0, 1], [0] * 65, DtaReason.BAD_LENGTH),
        ([0, 0, 0, 1], [], DtaReason.BAD_LENGTH),
    ):
        reports, arena = dta(16, np.array([keys], np.uint8), np.array([data], np.uint8).reshape(1, -1))
        block = VerbBlock.of(*writer.room(1))
        writer.write(reports, np.zeros(1, np.uint32), arena, block)
        assert (reports["reason"][0], len(block)) == (reason, 0)
    reports, arena = elements(1, 0, 500)
    block = VerbBlock.of(*writer.room(500))
    writer.write(reports, np.arange(500, dtype=np.uint32), arena, block)
    assert (block.filled["address"] < layout.nbytes).all()
    assert (block.filled["address"] >= layout.stride).all()
    for fields in ({"sketches": 0}, {"sketches": 1, "precision": 19}):
        with pytest.raises(ValueError, match="expected"):
            CardinalityLayout(**fields)  # type: ignore[arg-type]
    with pytest.raises(StoreError, match="sketch 2"):
        registers(Store.create(None, layout), 2)


def test_it_is_one_module() -> None:
    """The registry knows it, its datagrams are read, and its files are described, by its module alone."""
    primitive = load()[16]
    layout = primitive.layout.sized(1 << 20, precision=8)
    assert layout.nbytes == 1 << 20
    assert primitive.layout.of(layout.params()) == layout
    store = Store.create(None, layout)
    translator = Translator([layout], MemoryTransport([store]))
    datagram = bytes([16, 0, 4, 13, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7]) + b"an element..."
    frames = np.zeros(1, FRAME)
    frames["length"] = frames["wire_length"] = len(datagram)
    frames["link"] = Link.UDP_PAYLOAD
    batch = FrameBatch(np.frombuffer(datagram, np.uint8), frames)
    translator.translate(DtaParser(Form.SIZED, 1).parse(batch).copy(), batch.arena)
    assert translator.rejected.tolist()[:2] == [1, 0]
    told = primitive.answer(store, as_bytes(np.array([0, 7, 1 << 31], np.uint64)), QueryOptions())
    assert told == [
        {"status": "empty", "estimate": 0, "error": 0.0},
        {"status": "found", "estimate": 1, "error": 0.1},
        {"status": "empty", "reason": "sketch 2147483648: the store has sketches 0 to 127"},
    ]
