"""Rows of `hopscope decode`: what JSON nests, in the columns of CSV and of a table."""

from __future__ import annotations

from dataclasses import replace

from hopscope.base.names import Names
from hopscope.cli.decode.rows import COLUMNS, rows
from hopscope.cli.output.printer import Format
from hopscope.wire.craft.frames import craft
from hopscope.wire.decode.plain import decode_plain
from hopscope.wire.dialect import DEFAULT, DIALECTS, Dialect
from hopscope.wire.encode.encoder import new_hops, new_reports
from hopscope.wire.records import Carrier, Layer, ReportBatch
from oracle.encode import encode_scalar
from support.packets.by_hand import ethernet, ipv4, outer, u32, udp
from support.packets.wire_cases import frame_batch, frames_of

MD = bytes.fromhex("1809 0011 21000108 8000 5453 8000 4000")
"""cablelabs: shim and header; the source's MAC address is at the bottom of the stack."""
STACK = u32(3, 2, 1) + bytes.fromhex("0a0b0c0d0e0f0000")
HEAD = bytes.fromhex("2000004000000003 040a0900 0000545300000000 00000000")


def _row(form: Format, dialect: Dialect, frame: bytes) -> dict[str, str]:
    batch = frame_batch([frame])
    (row,) = rows(form, decode_plain(batch, dialect), batch, Names(), dialect)
    return dict(row)


def test_extras_are_columns() -> None:
    """Domain-specific metadata is one column, a hop a word; a hop without has a dash."""
    frame = outer(HEAD + ethernet(ipv4(udp(MD + STACK + udp(b""), 555))), 556)
    row = _row(Format.CSV, DIALECTS["cablelabs"], frame)
    assert row["hops.node_id"] == "1 2 3"
    mac = int("0a0b0c0d0e0f", 16)
    assert row["hops.extras"] == f"source_mac={mac} - -"
    assert (row["int.domain_id"], row["int.ds_flags"]) == (str(0x5453), "0x4000")
    assert set(row) <= set(COLUMNS[Format.CSV])


def test_ifa_has_columns() -> None:
    """Of its headers too: each key that JSON prints is a column."""
    one = {"int": {"version": "ifa", "inband": True, "hop_limit": 7}, "hops": [{"node_id": 3}]}
    packets = replace(DEFAULT, packets=True)
    row = _row(Format.CSV, packets, frames_of(craft([one], packets))[0])
    assert set(row) <= set(COLUMNS[Format.CSV])
    assert (row["int.inband"], row["int.hop_limit"]) == ("true", "7")


def test_a_refused_frame_has_no_bytes_in_csv() -> None:
    """CSV and tables tell why, and leave the bytes to JSON."""
    for form in (Format.CSV, Format.TABLE):
        row = _row(form, DEFAULT, outer(b"\x30"))
        told = {name: value for name, value in row.items() if name in COLUMNS[form]}
        assert not any("30" in str(value).split() for value in told.values())
        assert any("unknown_version" in str(value) for value in told.values())


def test_a_packet_that_no_report_brought() -> None:
    """It has neither report nor source; what lies around it is told."""
    reports = new_reports(1, 20)
    frames = encode_scalar(ReportBatch(reports, new_hops(0, 0)))
    for name, value in {
        "version": 0, "source_lo": 0, "int_version": 10, "int_mode": 1, "instructions": 0x8000,
        "hop_words": 1, "hop_count": 1, "carrier": Carrier.GENEVE, "vlan": 7,
        "layers": Layer.VLAN | Layer.GENEVE, "tunnel_id": 42,
    }.items():  # fmt: skip
        reports[name] = value
    hops = new_hops(1, 0x8000)
    hops["node_id"] = 9
    batch = ReportBatch(reports, hops)
    (csv,) = rows(Format.CSV, batch, frames, Names(), DEFAULT)
    told = {name: csv[name] for name in ("flow.vlan", "flow.layers", "flow.tunnel_id", "int.carrier")}
    assert told == {
        "flow.vlan": "7", "flow.layers": "vlan geneve", "flow.tunnel_id": "42", "int.carrier": "geneve",
    }  # fmt: skip
    assert not [name for name in csv if name.startswith("report.") or name == "source"]
    (table,) = rows(Format.TABLE, batch, frames, Names(), DEFAULT)
    assert (table["report"], table["path"], table["source"]) == ("packet md", "9", "")
