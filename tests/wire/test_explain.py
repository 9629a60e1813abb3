"""What a rejected report says: in words, for rows of either decoder."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hopscope.wire.decode.explain import explain
from hopscope.wire.decode.plain import decode_plain
from hopscope.wire.dialect import DEFAULT, DIALECTS
from hopscope.wire.records import REPORT
from oracle.decode import read_frame
from support.packets.by_hand import ethernet, group, inner_udp, int_2, ipv4, outer, report_1_0, single, tcp
from support.packets.corpus import corpus
from support.packets.mutants import Mutator
from support.packets.wire_cases import frame_batch

SHIM = int_2(0xA000, [bytes(8)], 2)


def told(frame: bytes) -> str:
    """The words for the only, rejected report of a frame."""
    (row,) = decode_plain(frame_batch([frame])).reports
    assert row["reason"]
    return explain(dict(zip(REPORT.names or (), row.item(), strict=True)), frame, DEFAULT)


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (b"\x70" + bytes(30), "report begins with 0x70"),
        (b"\x03" + bytes(30), "NProto 3"),
        (report_1_0(b"", nprot=5), "NProt 5"),
        (b"\x15" + report_1_0(b"")[1:], "Length 5 words, its metadata bits imply 4"),
        (group(single(b"", rep=3)), "RepType 3"),
        (group(single(b"", rep=2)), "IOAM report: its contents are not defined"),
        (group(single(b"", kind=9)), "InType 9"),
        (group(single(b"", length=9))[:-4], "the report takes 40 bytes, 8 are left"),
        (group(single(b"", bits=0x8000)), "MD Length 0 bytes, 0x8000 implies 4"),
        (group(single(bytes(6))), "Ethernet needs 14 bytes, 6 are left"),
        (group(single(ethernet(b"\x71" + bytes(30)))), "IP version 7 where 4 is expected"),
        (group(single(ethernet(b"\x44" + bytes(30)))), "IPv4 header of 16 bytes, at least 20 are needed"),
        (
            group(single(ethernet(ipv4(tcp(b"")[:12] + bytes(8), proto=6, dscp=0x17)))),
            "TCP header of 0 bytes, at least 20 are needed",
        ),
        (
            group(single(ethernet(inner_udp(SHIM[:1] + b"\x02" + SHIM[2:])))),
            "shim length 2, at least 3 words are needed",
        ),
        (
            group(single(ethernet(inner_udp(b"\x20" + SHIM[1:])))),
            "destination-type INT is not decoded",
        ),
        (
            group(single(ethernet(inner_udp(SHIM[:6] + b"\x03" + SHIM[7:])))),
            "3 words a hop, 0xa000 implies 2",
        ),
        (
            group(single(ethernet(inner_udp(SHIM[:1] + b"\x06" + SHIM[2:])))),
            "12 bytes are no whole number of 8-byte hops",
        ),
    ],
)
def test_words(report: bytes, words: str) -> None:
    """What was found and what was expected, by the header at the offset."""
    assert told(outer(report)) == words


def test_words_for_empty_reports() -> None:
    """The ninth says why the rest of the datagram is not read."""
    frame = outer(group(*[bytes(4)] * 20))
    row = decode_plain(frame_batch([frame])).reports[-1]
    assert explain(dict(zip(REPORT.names or (), row.item(), strict=True)), frame, DEFAULT) == (
        "more than 8 reports of the datagram hold neither a packet nor metadata"
    )


@pytest.mark.parametrize("name", ["spec", "host-int", "int-2015"])
def test_most_words_are_those_of_a_reader(name: str) -> None:
    """A reader that stops at the damage says the same of nine in ten mutants; every one is told something."""
    dialect = replace(DIALECTS[name], packets=True)
    batch = Mutator(corpus(dialect)).block(0, 300)
    same = []
    for number, frame in enumerate(batch.frames):
        raw = batch.arena[int(frame["offset"]) : int(frame["offset"] + frame["length"])].tobytes()
        for row in read_frame(raw, frame, number, dialect):
            if row.error is not None:
                words = explain(
                    {key: int(row.fields.get(key, 0)) for key in REPORT.names or ()}, raw, dialect
                )
                assert words
                same.append(words == row.error.detail)
    assert len(same) > 50
    assert np.mean(same) > 0.9
