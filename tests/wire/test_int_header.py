"""INT shims, headers, stacks and tails: round trips, truncation, and every reason of refusal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hopscope.wire import layout
from hopscope.wire.buffer import Buffer
from hopscope.wire.dialect import DIALECTS
from hopscope.wire.errors import WireError
from hopscope.wire.fields import RESERVED
from hopscope.wire.reasons import Place, Reason
from hopscope.wire.records import Carrier, Have, Hop
from hopscope.wire.telemetry.hop_stack import Tail, push_stack, push_tail
from hopscope.wire.telemetry.int_header import (
    KIND_OF,
    Md,
    Shim,
    has_tail,
    pull_md,
    pull_shim,
    push_md,
    push_shim,
)
from oracle.int_header import pull_stack, pull_tail

U8, U16, U32, U64 = (st.integers(0, (1 << bits) - 1) for bits in (8, 16, 32, 64))
OLD = st.builds(
    Shim,
    old=st.just(True),
    type=st.sampled_from([1, 2]),
    length=U8,
    npt=st.just(0),
    original=st.integers(0, 63),
)
NEW = st.sampled_from([0, 1, 2]).flatmap(
    lambda npt: st.builds(
        Shim,
        old=st.just(False),
        type=st.sampled_from([1, 2, 3]),
        length=U8,
        npt=st.just(npt),
        original=st.integers(0, (0x3F, 0xFFFF, 0xFF)[npt]),
    )
)


OVER = st.builds(
    Shim,
    old=st.just(False),
    type=st.sampled_from([1, 2, 3]),
    length=st.integers(0, 31),
    next_protocol=U8,
    added=st.booleans(),
    carrier=st.sampled_from([Carrier.GRE, Carrier.VXLAN_GPE]),
) | st.builds(Shim, old=st.just(True), type=st.sampled_from([1, 2]), length=U8, next_protocol=U8,
              carrier=st.just(Carrier.VXLAN_GPE)) | st.builds(
    Shim, old=st.just(False), type=st.sampled_from([1, 2, 3]), length=st.integers(0, 31),
    carrier=st.just(Carrier.GENEVE))  # fmt: skip
"""Shims in tunnels."""


def _all_cuts_are_truncated(raw: bytes, pull: Callable[[Buffer], Any]) -> None:
    for cut in range(len(raw)):
        with pytest.raises(WireError) as caught:
            pull(Buffer(raw[:cut]))
        assert caught.value.reason == Reason.TRUNCATED


@given(st.one_of(OLD, NEW, OVER))
def test_shim(shim: Shim) -> None:
    """Shims of all versions and carriers survive, and every cut is told."""
    out = bytearray()
    push_shim(out, shim)
    assert pull_shim(Buffer(bytes(out)), shim.carrier) == shim
    _all_cuts_are_truncated(bytes(out), lambda buf: pull_shim(buf, shim.carrier))


@pytest.mark.parametrize("first", [0x00, 0x03, 0x0F, 0x1C, 0x40, 0x2C, 0xF0])
def test_unknown_shims(first: int) -> None:
    """First bytes that no specification defines."""
    with pytest.raises(WireError) as caught:
        pull_shim(Buffer(bytes([first, 0, 0, 0])))
    assert (caught.value.reason, caught.value.place) == (Reason.UNKNOWN_TYPE, Place.INT_SHIM)


@st.composite
def stacks(draw: st.DrawFn) -> tuple[Shim, Md, list[Hop]]:
    """A shim, a header and hops that belong together."""
    version = draw(st.sampled_from([1, 4, 5, 10, 20]))
    bitmap = draw(U16.filter(bool) if version != 1 else st.integers(1, 255).map(lambda bits: bits << 8))
    items = layout.KIND_ITEMS[KIND_OF[version]]
    words = layout.metadata_size(items, bitmap) // 4
    domain = draw(st.integers(0, 3)) if version == 20 else 0
    defined = any(bitmap >> (15 - bit) & 1 and item.have for bit, item in enumerate(items))
    assume(defined or domain)  # reserved bits alone are rejected
    count = draw(st.integers(0, min(64, 250 // (words + domain))))
    md = Md(version, words + domain, draw(st.integers(0, 100)), bitmap, draw(st.booleans()))
    if version <= 5:
        md.total_hops = count
        md.copy = draw(st.booleans())
    else:
        md.mtu_exceeded = draw(st.booleans())
    if version == 20:
        md.ds_instruction = draw(st.integers(1, 65535)) if domain else 0
        md.domain_id, md.ds_flags, md.discard = draw(U16), draw(U16), draw(st.booleans())
    length = md.hop_words * count + {1: 3, 4: 4, 5: 4, 10: 3, 20: 3}[version]
    hops = []
    for _ in range(count):
        hop, known = Hop(), 0
        for bit, item in enumerate(items):
            if bitmap >> (15 - bit) & 1 and item.have:
                hop.present |= item.have
                values = {
                    name: draw(st.sampled_from([0, 1, mask, mask // 3]))
                    for name, _, mask in item.fields.shifts
                    if name != "bottom"
                }
                for name, value in values.items():
                    setattr(hop, name, value)
                whole = all(one.name != RESERVED for one in item.fields.fields)
                masks = {name: mask for name, _, mask in item.fields.shifts}
                if not whole or any(value != masks[name] for name, value in values.items()):
                    known |= item.have
        hop.null = hop.present & ~known
        hops.append(hop)
    return Shim(version != 20, length=length), md, hops


@given(stacks())
def test_stack(case: tuple[Shim, Md, list[Hop]]) -> None:
    """Header and hops of every version and bitmap survive in path order; all ones are null; every cut is
    told.
    """
    shim, md, hops = case
    out = bytearray()
    dialect = DIALECTS["int-2015" if md.version == 1 else "spec"]
    push_md(out, md, dialect)
    push_stack(out, md, hops)
    if has_tail(shim, md.version):
        push_tail(out, Tail(6, 7, 8))
    buf = Buffer(bytes(out))
    assert pull_md(buf, shim, dialect) == md
    assert pull_stack(buf, shim, md)[0] == hops
    assert buf.left == 0
    for cut in {0, 1, 7, len(out) // 2, len(out) - 1} & set(range(len(out))):
        short = Buffer(bytes(out[:cut]))
        with pytest.raises(WireError) as caught:
            pull_stack(short, shim, pull_md(short, shim, dialect))
        assert caught.value.reason == Reason.TRUNCATED


@given(st.builds(Tail, U8, U16, U8))
def test_tail(tail: Tail) -> None:
    """The tail of 0.5 survives, and every cut is told."""
    out = bytearray()
    push_tail(out, tail)
    assert pull_tail(Buffer(bytes(out))) == tail
    _all_cuts_are_truncated(bytes(out), pull_tail)


def _md(version: int, words: int, bitmap: int, **more: int) -> bytes:
    out = bytearray()
    push_md(out, Md(version, words, 8, bitmap, **more))  # type: ignore[arg-type]
    return bytes(out)


@pytest.mark.parametrize(
    ("header", "shim", "reason", "place"),
    [
        (_md(20, 0, 0), Shim(False, length=3), Reason.BAD_HOP_SIZE, Place.INT_HEADER),
        (_md(20, 2, 0x8000), Shim(False, length=3), Reason.BAD_HOP_SIZE, Place.INT_HEADER),
        (_md(20, 1, 0x0800, ds_instruction=1), Shim(False, length=3), Reason.BAD_HOP_SIZE, Place.INT_HEADER),
        (_md(10, 1, 0xC000), Shim(True, length=3), Reason.BAD_HOP_SIZE, Place.INT_HEADER),
        (_md(5, 3, 0xC000), Shim(True, length=4), Reason.BAD_HOP_SIZE, Place.INT_HEADER),
        (_md(20, 1, 0x8000), Shim(False, length=2), Reason.BAD_LENGTH, Place.INT_SHIM),
        (_md(10, 1, 0x8000), Shim(True, length=2), Reason.BAD_LENGTH, Place.INT_SHIM),
        (_md(5, 1, 0x8000), Shim(True, length=0), Reason.BAD_LENGTH, Place.INT_SHIM),
        (b"\x20" + bytes(11), Shim(True, length=4), Reason.UNKNOWN_VERSION, Place.INT_HEADER),
        (b"\x10" + bytes(11), Shim(False, length=4), Reason.UNKNOWN_VERSION, Place.INT_HEADER),
    ],
)
def test_md_refusals(header: bytes, shim: Shim, reason: Reason, place: Place) -> None:
    """Wrong hop sizes, lengths and versions; the hop size 0 is never divided by."""
    with pytest.raises(WireError) as caught:
        pull_md(Buffer(header + bytes(100)), shim)
    assert (caught.value.reason, caught.value.place) == (reason, place)


@pytest.mark.parametrize(
    ("md", "length", "reason"),
    [
        (Md(5, 1, 8, 0x8000, total_hops=2), 5, Reason.BAD_LENGTH),
        (Md(10, 2, 8, 0xC000), 4, Reason.BAD_LENGTH),
        (Md(20, 2, 8, 0xC000), 6, Reason.BAD_LENGTH),
        (Md(20, 1, 8, 0x8000), 68, Reason.TOO_MANY_HOPS),
        (Md(20, 1, 8, 0x8000), 255, Reason.TOO_MANY_HOPS),
    ],
)
def test_stack_refusals(md: Md, length: int, reason: Reason) -> None:
    """Stacks that are no whole number of hops, and more than 64 hops."""
    with pytest.raises(WireError) as caught:
        pull_stack(Buffer(bytes(2000)), Shim(md.version != 20, length=length), md)
    assert (caught.value.reason, caught.value.place) == (reason, Place.INT_STACK)


def test_64_hops() -> None:
    """64 hops are read."""
    md = Md(20, 1, 0, 0x8000)
    stack = b"".join(i.to_bytes(4, "big") for i in range(64))
    assert [hop.node_id for hop in pull_stack(Buffer(stack), Shim(False, length=67), md)[0]] == list(
        range(63, -1, -1)
    )


def test_domain_specific_metadata_is_skipped() -> None:
    """It lies between the baseline and the checksum complement, also what the source alone adds."""
    md = Md(20, 4, 0, 0x8001, ds_instruction=0x8000)
    far = bytes.fromhex("00000008 aaaaaaaa bbbbbbbb 0000000a")
    hop = bytes.fromhex("00000007 aaaaaaaa bbbbbbbb cccccccc dddddddd 00000009")
    (one, other), _ = pull_stack(Buffer(far + hop), Shim(False, length=3 + 8 + 2), md)
    assert (one.node_id, one.checksum_complement) == (7, 9)
    assert (other.node_id, other.checksum_complement) == (8, 10)
    assert one.present == Have.NODE_ID | Have.CHECKSUM_COMPLEMENT
