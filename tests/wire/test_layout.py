"""The tables of fields against the sizes and the code points that other modules rely on."""

from __future__ import annotations

import pytest

from hopscope.wire import layout
from hopscope.wire.catalog import HEADERS
from hopscope.wire.fields import Header
from hopscope.wire.records import HOP, Have

SIZES = {
    "ETHERNET": 14, "VLAN": 4, "IPV4": 20, "IPV6": 40, "UDP": 8, "TCP": 20, "REPORT_0_5": 12, "DROP_0_5": 12,
    "SWITCH_LOCAL_0_5": 16, "REPORT_1_0": 16, "GROUP_2_0": 8, "REPORT_2_0": 4, "MAIN_2_0": 8, "TLV_2_0": 4,
    "SHIM_OLD": 4, "SHIM_2_0": 4, "TAIL_0_5": 4, "MD_0_5": 8, "MD_1_0": 8, "MD_2_0": 12,
    "LABEL_OPTION": 2, "LABEL_STATE": 32, "LABEL_ITEM": 32,
}  # fmt: skip


@pytest.mark.parametrize("name", SIZES)
def test_sizes(name: str) -> None:
    """Every header has the size that its specification gives."""
    assert HEADERS[name].size == SIZES[name]


@pytest.mark.parametrize("header", HEADERS.values(), ids=lambda header: header.name)
def test_fields_follow_each_other(header: Header) -> None:
    """Fields fill a header without a gap, and have a section of a specification."""
    at = 0
    for field in header.fields:
        assert field.at == at
        at += field.bits
    assert at == header.size * 8
    assert header.spec


def test_word_tells_where_a_kernel_reads() -> None:
    """Offset, shift and mask of a field are those of the specification's diagram."""
    assert layout.REPORT_0_5.word("tracked") == (0, 21, 1)
    assert layout.REPORT_0_5.word("hw_id") == (0, 0, 63)
    assert layout.REPORT_1_0.word("metadata_bits") == (0, 15, 63)
    assert layout.REPORT_1_0.word("next_protocol") == (0, 21, 7)
    assert layout.MD_2_0.word("hop_words") == (0, 8, 31)
    assert layout.MD_2_0.word("domain_id") == (4, 0, 0xFFFF)
    with pytest.raises(KeyError, match="no field"):
        layout.MD_2_0.field("nothing")


def test_metadata_sizes() -> None:
    """Bytes of the usual bitmaps (wire-formats 2.4 and 1.3)."""
    assert layout.metadata_size(layout.HOP_2_0, 0xFF00) == 44
    assert layout.metadata_size(layout.HOP_1_0, 0xFF00) == 36
    assert layout.metadata_size(layout.HOP_0_5, 0xFF00) == 32
    assert layout.metadata_size(layout.HOP_2_0, 0xFFFF) == 16 * 4 + 3 * 4
    assert layout.metadata_size(layout.OWN_2_0, 0x0E01) == 8 * 3 + 4


def test_items_are_fields_of_hop() -> None:
    """Every value of an instruction has its field in HOP, and its bit is one of Have."""
    for items in (layout.HOP_0_5, layout.HOP_1_0, layout.HOP_2_0, layout.OWN_1_0, layout.OWN_2_0):
        assert len(items) == 16
        for item in items:
            if item.have:
                assert item.have in list(Have)
                assert {name for name, _, _ in item.fields.shifts} <= set(HOP.names or ())
