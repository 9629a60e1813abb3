"""Domain-specific metadata by name: in hops, from the source alone, and in a report's own metadata."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hopscope.wire.craft.frames import craft
from hopscope.wire.decode.as_json import report_objects
from hopscope.wire.decode.extras import EXTRA, NO_HOP, Extras, extras
from hopscope.wire.decode.plain import decode_plain
from hopscope.wire.dialect import DEFAULT, DIALECTS, Dialect, Domain
from hopscope.wire.records import FrameBatch, ReportBatch
from support.packets.by_hand import ethernet, group, inner_udp, int_2, outer, single, u32
from support.packets.wire_cases import frame_batch

DOMAIN = Domain(7, ((0, "temperature", 4), (2, "power", 8)), ((1, "flow", 4), (3, "path", 12)))
DIALECT = replace(DEFAULT, domains=(DOMAIN,))


def _extras(frame: bytes, dialect: Dialect = DIALECT) -> tuple[ReportBatch, FrameBatch, Extras]:
    frames = frame_batch([frame])
    batch = decode_plain(frames, dialect)
    assert not batch.reports["reason"].any()
    return batch, frames, extras(batch, frames, dialect)


def _in_report(telemetry: bytes) -> bytes:
    return outer(group(single(ethernet(inner_udp(telemetry)))))


HOP_9 = u32(9, 0x20, 0, 3, 0xC0000009)
HOP_8 = u32(8, 0x30, 0xFFFFFFFF, 0xFFFFFFFF, 0xAABBCCDD, 0xC0000008)
"""Node id, temperature, power; from the source its flow; checksum complement."""


def test_hops_and_source() -> None:
    """Each hop has its values by the bits of DS Instruction, the source by DS Flags; all ones is None."""
    telemetry = int_2(0x8001, [HOP_9, HOP_8], 5, domain=(7, 0xA000, 0x4000))
    batch, frames, found = _extras(_in_report(telemetry))
    assert found.records.dtype == EXTRA
    assert found.of_hop(0) == {"temperature": 0x30, "power": None, "flow": 0xAABBCCDD}
    assert found.of_hop(1) == {"temperature": 0x20, "power": 3}
    assert found.of_report(0) == {}
    assert batch.hops["checksum_complement"].tolist() == [0xC0000008, 0xC0000009]
    raw = frames.arena.tobytes()
    for record in found.records:
        at, size = int(record["at"]), int(record["size"])
        assert int.from_bytes(raw[at : at + size], "big") == record["value"]


@pytest.mark.parametrize(
    "domain",
    [(8, 0xA000, 0x4000), (7, 0x8000, 0x8000), (7, 0xF000, 0x6001)],
    ids=["unknown domain", "other sizes", "other flags"],
)
def test_unknown_sizes(domain: tuple[int, int, int]) -> None:
    """What no domain explains to the byte is one raw value in hexadecimal digits."""
    found = _extras(_in_report(int_2(0x8001, [HOP_9, HOP_8], 5, domain=domain)))[2]
    assert found.of_hop(1) == {"ds": u32(0x20, 0, 3).hex()} or domain[1] == 0xF000
    assert found.of_hop(0)["ds_source" if domain[2] != 0x6001 else "flow"] in ("aabbccdd", 0xAABBCCDD)


def test_long_values_are_hexadecimal() -> None:
    """What is longer than 8 bytes is no number; a dialect tells it from hops of one word."""
    telemetry = int_2(0x8000, [u32(8), u32(9, 1, 2, 3)], 1, domain=(7, 0, 0x1000))
    batch, _, found = _extras(_in_report(telemetry), replace(DIALECT, source_words=3))
    assert batch.hops["node_id"].tolist() == [9, 8]
    assert found.of_hop(0) == {"path": u32(1, 2, 3).hex()}
    assert found.of_hop(1) == {}


def test_mx_has_values_of_no_hop() -> None:
    """INT-MX: what the source adds belongs to the packet; behind a record, to its hop."""
    mx = bytes.fromhex("30040000 20000000 80000007 00004000 00000005")
    found = _extras(_in_report(mx))[2]
    assert found.of_packet(0) == {"flow": 5}
    assert found.of_report(0) == {}
    assert found.records["hop"].tolist() == [NO_HOP]
    mx = bytes.fromhex("30050000 20000000 80000007 00004000 00000001 00000005")
    found = _extras(_in_report(mx), replace(DIALECT, mx_record=True))[2]
    assert found.of_hop(0) == {"flow": 5}


def test_reports_own_metadata() -> None:
    """What MD Length counts beyond the baseline, by DSMdBits; of the report where it has no baseline."""
    inner = ethernet(inner_udp(int_2(0x8000, [u32(1)], 1)))
    own = u32(5, 0x00010002, 0x77)
    one = bytearray(single(inner, bits=0x4000, own=own[4:]))
    one[6:10] = bytes.fromhex("00078000")
    batch, frames, found = _extras(outer(group(bytes(one))))
    assert found.of_hop(1) == {"temperature": 0x77}
    assert extras(batch, frames, DEFAULT).of_hop(1) == {"ds": "00000077"}
    two = bytearray(single(inner, own=own))
    batch, frames, found = _extras(outer(group(bytes(two))))
    assert found.of_report(0) == {"ds": own.hex()}
    assert len(extras(batch, frames, DIALECT, 0).records) == 1


def test_cablelabs() -> None:
    """The source's MAC address, 6 bytes of 8."""
    telemetry = bytes.fromhex("18080006 20000109 8000 5453 8000 4000 00000003 00000002 020000000001 0000")
    frames = frame_batch([_in_report(telemetry)])
    dialect = replace(DIALECTS["cablelabs"], ports=DEFAULT.ports, int_dscp=(0x17,), inner_types=())
    batch = decode_plain(frames, dialect)
    assert batch.hops["node_id"].tolist() == [2, 3]
    assert extras(batch, frames, dialect).of_hop(0) == {"source_mac": 0x020000000001}


def test_other_dialects_and_frames() -> None:
    """Asked with another dialect than the decoder's, or none to be found, nothing is invented or raised."""
    frame = _in_report(int_2(0x8001, [HOP_9, HOP_8], 5, domain=(7, 0xA000, 0x4000)))
    batch, frames, _ = _extras(frame)
    for name, dialect in DIALECTS.items():
        found = extras(batch, frames, dialect)
        assert set(found.names) <= {"ds", "ds_source"}, name
    cut = FrameBatch(frames.arena, frames.frames.copy())
    for length in range(len(frame)):
        cut.frames["length"] = length
        assert len(extras(batch, cut, DIALECT).records) in (0, 5)
    assert len(_extras(_in_report(int_2(0x8000, [u32(1)], 1)))[2].records) == 0
    assert len(extras(ReportBatch(batch.reports[:0], batch.hops[:0]), frames, DIALECT).records) == 0
    assert np.isin(frames.arena, range(256)).all()


@pytest.mark.parametrize(
    "telemetry",
    [
        int_2(0x8001, [HOP_9, HOP_8], 5, domain=(7, 0xA000, 0x4000)),
        int_2(0x8001, [HOP_9, HOP_8], 5, domain=(9, 0xA000, 0x4000)),
        int_2(0x8001, [HOP_9, HOP_9], 5, domain=(7, 0xA000, 0)),
        bytes.fromhex("30040000 20000000 80000007 00004000 00000005"),
        bytes.fromhex("30050000 20000000 80000007 00004000 00000005 12345678"),
        bytes.fromhex("10040000 20000205 a0000007 00004000 00000005"),
    ],
)
def test_objects_and_back(telemetry: bytes) -> None:
    """What `decode` prints of domain-specific metadata, `craft` writes again."""
    inner = ethernet(inner_udp(telemetry))
    named, raw = (
        bytearray(single(inner, bits=0x4000, own=u32(0x00010002, 0x77))),
        single(inner, own=u32(1, 2)),
    )
    named[6:10] = bytes.fromhex("00078000")
    frames = frame_batch([outer(group(bytes(named))), outer(group(raw)), _in_report(telemetry)])
    found = list(report_objects(decode_plain(frames, DIALECT), frames, DIALECT))
    assert [one["report"].get("extras") for one in found] == [
        {"temperature": 0x77}, {"ds": u32(1, 2).hex()}, None,
    ]  # fmt: skip
    assert all("extras" in one["int"] or any("extras" in hop for hop in one["hops"]) for one in found)
    again = craft(found, DIALECT)
    assert list(report_objects(decode_plain(again, DIALECT), again, DIALECT)) == found
