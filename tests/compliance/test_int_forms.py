"""Every form of INT, by kernel and by scalar codec: shim, header and stack behind each carrier, in each
dialect and in made-up ones that have every rule switched.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopscope.wire import layout
from hopscope.wire.dialect import DEFAULT, DIALECTS, Dialect
from hopscope.wire.layout import Item
from hopscope.wire.records import HOP, Carrier
from hopscope.wire.telemetry import int_header
from support.packets.int_cases import Compiled, Result, scalar

pytestmark = pytest.mark.kernel
CARRIERS = [one for one in Carrier if one not in (Carrier.NONE, Carrier.IPV6_OPTION, Carrier.IP_PROTOCOL)]
REPORTS = (0, 5, 10, 20)
ODD_ITEMS = (
    layout.QUEUE_16_16, layout.QUEUE_8_16, layout.QUEUE_8_19, layout.CONGESTION_16_16, layout.INGRESS_64,
    layout.EGRESS_32, layout.L2_PORTS_16, layout.NODE, layout.CHECKSUM, layout.FILLER, layout.DROP,
    *layout.HOP_2015[:8],
)  # fmt: skip
"""Items that a made-up dialect may have at any bit."""


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    """One for all examples."""
    return Compiled()


def telemetry(rng: np.random.Generator, carrier: int, dialect: Dialect, report: int) -> bytes:
    """INT that is right but for what chance changes: sizes and versions near those that the dialect has."""
    old = carrier != Carrier.GRE and bool(rng.integers(2))
    versions = [1, 4, 5, 10] if old else [20]
    version = int(rng.choice(versions))
    wanted = {(new, v) for r, new, v in dialect.int_layouts if r == report}
    nibbles = [nibble for nibble, v in wanted if v == version] or [{5: 0, 10: 1, 4: 4, 20: 2}.get(version, 0)]
    nibble = int(rng.choice(nibbles))
    mode = int(rng.choice([1, 1, 1, 3, 2])) if not old else 1
    bitmap = int(
        rng.choice([0x8000, 0xFF00, 0xFF80, 0xFE00, 0x2001, 0xFFFF, 0x8007, int(rng.integers(1 << 16))])
    )
    md = int_header.Md(version, 0, int(rng.integers(9)), bitmap)
    forms = [(items, bitmap) for items in dialect.alternatives(int_header.KIND_OF[version])]
    forms += [(items, bitmap & 0xFF81) for items, _ in forms]
    words = layout.metadata_size(*forms[rng.integers(len(forms))]) // 4
    domain = int(rng.choice([0, 0, 0, 2])) if version == 20 else 0
    count = int(rng.integers(0, 5))
    source = int(rng.choice([0, 0, 1, 2])) if version == 20 else 0
    if version == 20:
        md.ds_instruction, md.ds_flags, md.domain_id = int(domain > 0), int(rng.integers(2)) * source, 7
    md.hop_words = (words + domain) % 32
    if version in (1, 4, 5) and rng.random() < 0.5:
        md.hop_words = bitmap.bit_count() % 32
    md.total_hops = count
    stack = rng.integers(0, 256, 4 * ((words + domain) * count + source), np.uint8)
    for at in range(0, len(stack) - 3, 4):
        if rng.random() < 0.2:
            stack[at : at + 4] = 0xFF
        if version == 1:
            stack[at] = stack[at] & 0x7F | (0x80 if at == len(stack) - 4 else 0)
    tail = 1 if version in (4, 5) and carrier in (1, 2, 7) else 0
    extra = dialect.length_with_shim if version == 20 else 0
    base = (3 if version == 20 else 2) if carrier == Carrier.GENEVE else 3 + extra
    length = base + len(stack) // 4 + tail + int(rng.choice([0, 0, 0, 0, 1, -1]))
    if dialect.any_shim_length and rng.random() < 0.3:
        length = 0
    shim = int_header.Shim(old, mode, length % (32 if carrier == Carrier.GENEVE else 256), carrier=carrier)
    if not old:
        shim.npt, shim.original = (0, 0, 1, 2)[rng.integers(4)], int(rng.choice([6, 17, 50]))
    head = bytearray()
    try:
        int_header.push_shim(head, shim, dialect)
    except ValueError:  # a shift that leaves no room for the value
        shim.original = 0
        int_header.push_shim(head, shim, dialect)
    if dialect.shims and carrier <= 2 and rng.random() < 0.5:
        head[0] = dialect.shims[rng.integers(len(dialect.shims))][0]
    at = len(head)
    if version == 20:
        int_header.push_md(head, md, dialect, mode)
        if mode == 1:
            word = int.from_bytes(head[at : at + 4], "big") & ~(31 << 8) | md.hop_words << 8
            head[at : at + 4] = word.to_bytes(4, "big")
    else:
        last = 5 if version == 10 else md.hop_words
        sizes = [0, md.hop_words, last] if version == 10 else [md.hop_words, 9, count]
        head += bytes([0, *sizes]) + bitmap.to_bytes(2, "big") + b"\0\0"
    head[at] = head[at] & 0x0F | nibble << 4
    out = bytes(head) + stack.tobytes() + bytes([17, 0, 9, 0]) + b"payload behind it"
    if rng.random() < 0.3:
        changed = bytearray(out)
        changed[rng.integers(min(len(out), 20))] = int(rng.choice([0, 1, 0xFF, int(rng.integers(256))]))
        out = bytes(changed)
    return out


@st.composite
def dialects(draw: st.DrawFn) -> Dialect:
    """Made-up dialects: any rule of INT switched."""
    items: list[tuple[int, tuple[Item, ...]]] = []
    for kind in draw(st.sets(st.sampled_from(list(int_header.KIND_OF.values())), max_size=3)):
        for _ in range(draw(st.integers(1, 2))):
            changes = draw(st.dictionaries(st.integers(0, 15), st.sampled_from(ODD_ITEMS), max_size=5))
            usual = layout.KIND_ITEMS[kind]
            items.append((kind, tuple(changes.get(bit, item) for bit, item in enumerate(usual))))
    shifts = draw(st.lists(st.integers(15, 27), min_size=3, max_size=3, unique=True))
    int_layouts: list[tuple[tuple[int, int, int], ...]] = [
        (),
        tuple((r, 0, 1) for r in REPORTS),
        tuple((r, 0, 4) for r in REPORTS),
        ((10, 0, 10),),
        tuple((r, n, 20) for r in REPORTS for n in (0, 3)),
    ]
    return Dialect(
        "made up",
        shims=draw(st.sampled_from([
            (), ((3, 1, True, True),), ((0x30, 1, False, False), (0x40, 3, False, True)),
        ])),
        int_layouts=draw(st.sampled_from(int_layouts)),
        any_shim_length=draw(st.booleans()), length_with_shim=draw(st.booleans()),
        swapped=draw(st.booleans()), reversed=draw(st.booleans()),
        source_words=draw(st.sampled_from([0, 0, 1, 2])),
        mx_record=draw(st.booleans()), npt_shifts=draw(st.sampled_from([(2, 0, 0), (10, 0, 8), (0, 0, 0)])),
        md_shifts=(shifts[0], shifts[1], shifts[2]),
        ds_offsets=draw(st.sampled_from([(6, 8, 10), (10, 8, 6)])),
        items=tuple(items),
    )  # fmt: skip


def _compare(compiled: Compiled, rng: np.random.Generator, dialect: Dialect) -> Result:
    carrier, report = int(rng.choice(CARRIERS)), int(rng.choice(REPORTS))
    raw = telemetry(rng, carrier, dialect, report)
    end = len(raw) if rng.random() < 0.8 else int(rng.integers(len(raw) + 1))
    limit = end if rng.random() < 0.8 else int(rng.integers(len(raw) + 9))
    one = scalar(raw, end, limit, carrier, dialect, report)
    assert one == compiled.read(raw, end, limit, carrier, dialect, report), (carrier, report, raw.hex())
    return one


@pytest.mark.parametrize("name", DIALECTS)
def test_every_dialect(compiled: Compiled, name: str) -> None:
    """Both decoders agree on INT as each dialect has it and near it, and read much of it."""
    rng = np.random.default_rng(len(name))
    results = [_compare(compiled, rng, DIALECTS[name]) for _ in range(400)]
    assert sum(result[0] == 0 for result in results) > 60
    assert {result[3]["int_version"] for result in results} >= {10, 20}


@settings(deadline=None, max_examples=60)
@given(dialects(), st.integers(0, 2**32 - 1))
def test_made_up_dialects(compiled: Compiled, dialect: Dialect, seed: int) -> None:
    """Both decoders agree whatever rules a dialect combines."""
    rng = np.random.default_rng(seed)
    for _ in range(40):
        _compare(compiled, rng, dialect)


def test_of_two_items_with_a_value_the_later_one_counts(compiled: Compiled) -> None:
    """A wider value before it leaves nothing."""
    items = list(layout.KIND_ITEMS[int_header.KIND_OF[20]])
    items[0], items[1] = layout.QUEUE, layout.QUEUE_8_16
    dialect = replace(DEFAULT, items=((int_header.KIND_OF[20], tuple(items)),))
    head = bytearray()
    int_header.push_shim(head, int_header.Shim(False, 1, 3 + 6 * 4, carrier=Carrier.UDP), dialect)
    int_header.push_md(head, int_header.Md(20, 6, 1, 0xCC00), dialect, 1)
    raw = bytes(head) + 4 * (bytes.fromhex("07 e95e11 12 00 b7bc") + bytes(16))
    one = scalar(raw, len(raw), len(raw), Carrier.UDP, dialect, 20)
    assert one == compiled.read(raw, len(raw), len(raw), Carrier.UDP, dialect, 20)
    hops = np.frombuffer(one[4], HOP)
    assert hops["queue_id"].tolist() == 4 * [0x12]
    assert hops["queue_occupancy"].tolist() == 4 * [0xB7BC]


def test_every_prefix(compiled: Compiled) -> None:
    """INT over every carrier, cut at every byte, and with the packet's length ending at every byte."""
    rng = np.random.default_rng(7)
    for dialect in (
        DEFAULT,
        *(DIALECTS[name] for name in ("intcollector", "host-int", "laofan13")),
    ):
        for carrier in CARRIERS:
            raw = telemetry(rng, carrier, dialect, 0)
            for cut in range(len(raw) + 1):
                for end, limit in ((cut, cut), (len(raw), cut)):
                    one = scalar(raw, end, limit, carrier, dialect, 0)
                    assert one == compiled.read(raw, end, limit, carrier, dialect, 0)


def test_rules_are_independent() -> None:
    """A dialect with one rule changed has another table, and only rules of lengths cost the fast path."""
    from hopscope.wire import rules

    table = DEFAULT.table()
    assert table[rules.SHIM + 0x10] == 65
    changes: dict[str, Any] = {
        "any_shim_length": True, "length_with_shim": True, "swapped": True, "reversed": True,
        "source_words": 1,
        "npt_shifts": (10, 0, 0), "md_shifts": (25, 24, 23), "ds_offsets": (10, 8, 6), "mx_record": True,
        "shims": ((3, 1, True, True),), "int_layouts": ((0, 0, 4),),
    }  # fmt: skip
    for name, value in changes.items():
        other = replace(DEFAULT, **{name: value}).table()
        assert (other != table).any()
        slow = name in ("any_shim_length", "length_with_shim", "source_words")
        assert other[rules.SHIM + 0x10] == (1 if slow else 65)
