"""IOAM options from the keys of objects: the inverse of what is decoded."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from hopscope.wire.buffer import Buffer
from hopscope.wire.craft import ioam as craft_ioam
from hopscope.wire.craft.frames import craft
from hopscope.wire.craft.ioam import option_of
from hopscope.wire.craft.keys import CraftError, Keys
from hopscope.wire.decode.as_json import _HOP_KEYS
from hopscope.wire.dialect import DEFAULT
from hopscope.wire.records import Hop, Mode
from hopscope.wire.telemetry import ioam
from oracle.ioam import read_ioam
from oracle.row import Row
from support.packets import ioam_cases
from support.packets.ioam_cases import OPTIONS


def hops(*values: Mapping[str, object]) -> list[Keys]:
    """Hops of an object."""
    return [Keys(value, f"hops[{at}]") for at, value in enumerate(values)]


def read(option: bytes) -> Row:
    """The row of an option."""
    row = Row({})
    read_ioam(Buffer(option), row, DEFAULT)
    return row


def test_a_trace_from_a_few_keys() -> None:
    """The trace type follows from the keys of the hops, and what is not said is not available."""
    option = option_of(
        Keys({"namespace": 5, "remaining_hops": 2}),
        hops({"node_id": 1, "ingress_port": 7}, {"node_id": 2, "ingress_time": 9 << 32 | 4}),
    )
    row = read(option)
    assert (row.fields["instructions"], row.fields["domain_id"], row.fields["remaining_hops"]) == (
        0xF000,
        5,
        2,
    )
    assert [(one.node_id, one.ingress_port, one.egress_port) for one in row.hops] == [
        (1, 7, 0xFFFF),
        (2, 0xFFFF, 0xFFFF),
    ]
    assert row.hops[1].ingress_time == 9 << 32 | 4
    assert row.hops[0].null & 16


def test_direct_export_from_a_few_keys() -> None:
    """Flow id and sequence number are there where they are given."""
    found = ioam.reread(option_of(Keys({"mode": "dex", "sequence": 3}), []), 4)
    assert found == ioam.Dex(0, 0, 0xF00000, None, 3)


@pytest.mark.parametrize("name", [name for name in OPTIONS if "unknown" not in name])
def test_what_is_read_is_written(name: str) -> None:
    """All that is told of an option gives the same option: except its type byte, and what is in its room."""
    row = read(OPTIONS[name])
    found = ioam.reread(OPTIONS[name], 4)
    trace_type = row.fields["instructions"] << 8 | row.fields["ds_instruction"]
    head: dict[str, object] = {"namespace": 123, "trace_type": f"0x{trace_type:06x}"}
    path: list[dict[str, object]] = []
    if isinstance(found, ioam.Dex):
        head |= {"mode": "dex"}
        head |= {key: value for key in ("flow_id", "sequence") if (value := getattr(found, key)) is not None}
    else:
        head |= {
            "mode": "incremental" if found[0].mode == Mode.IOAM_INCREMENTAL else "preallocated",
            "hop_words": row.fields["hop_words"], "remaining_hops": row.fields["remaining_hops"],
            "hops_exceeded": bool(row.fields["int_flags"]),
        }  # fmt: skip
        path = [told(OPTIONS[name], at, hop) for at, hop in enumerate(row.hops)]
    option = option_of(Keys(head), hops(*path))
    assert option[1:].hex() == OPTIONS[name][1:].hex()


def told(raw: bytes, number: int, hop: Hop) -> dict[str, object]:
    """A hop as it is printed."""
    out: dict[str, object] = {}
    for have, key, name in _HOP_KEYS:
        if hop.present & have:
            out[key] = None if hop.null & have else getattr(hop, name)
    extras: dict[str, object] = {}
    for place, name, at, size in ioam.extras_of(raw, 4):
        value = int.from_bytes(raw[at : at + size], "big")
        if place == number and name == ioam.SNAPSHOT:
            extras[name] = raw[at : at + size].hex()
        elif place == number:
            extras[name] = None if value == (1 << 8 * size) - 1 else value
    return {**out, "extras": extras}


@pytest.mark.parametrize(
    ("head", "path", "key"),
    [
        ({"mode": "dex"}, [{"node_id": 1}], "hops"),
        ({"mode": "md"}, [], "mode"),
        ({"trace_type": "0xf00000", "hop_words": 3}, [], "hop_words"),
        ({"sequence": 1}, [], "sequence"),
        ({"mode": "dex", "hop_words": 1}, [], "hop_words"),
        ({"trace_type": "0x800000"}, [{"node_id": 1 << 24}], "hops[0].node_id"),
        ({"trace_type": "0x800000"}, [{"node_id": 1, "egress_port": 4}], "hops[0].egress_port"),
        ({"trace_type": "0x800000"}, [{"node_id": 1, "extras": {"schema": 4}}], "hops[0].extras.schema"),
        ({}, [{"extras": {"snapshot": "0102"}}], "hops[0].extras.snapshot"),
    ],
)
def test_what_is_wrong_is_named(head: dict[str, object], path: list[dict[str, object]], key: str) -> None:
    """One key per way to be wrong."""
    with pytest.raises(CraftError) as caught:
        option_of(Keys(head), hops(*path))
    assert caught.value.key == key


def test_a_packet_with_a_trace() -> None:
    """An object whose version is `ioam` is a packet of IPv6 with the option in a hop-by-hop header."""
    plain = {"int": {"version": "ioam", "namespace": 9}, "hops": [{"node_id": 1}]}
    for one in (plain, {**plain, "report": {}}):
        frames = craft([one])
        raw = frames.arena.tobytes()
        option = ioam_cases.trace([b"\xff\0\0\x01"], 0x800000, 1).replace(b"\0\x7b", b"\0\x09")
        at = raw.index(ioam_cases.extension(option))
        ip = raw[at - 40 : at]
        assert (ip[0] >> 4, ip[6]) == (6, 0)
        assert int.from_bytes(ip[4:6], "big") == len(ioam_cases.extension(option)) + 8  # and UDP


def test_ioam_needs_ipv6() -> None:
    """A flow between IPv4 addresses has no options of IPv6."""
    with pytest.raises(CraftError) as caught:
        craft([{"int": {"version": "ioam"}, "flow": {"src": "10.0.0.1", "dst": "10.0.0.2"}}])
    assert caught.value.key == "flow.src"


def test_an_id_of_all_ones_is_there() -> None:
    """A flow id that is printed as null is written, unlike one that is left out."""
    found = ioam.reread(option_of(Keys({"mode": "dex", "flow_id": None}), []), 4)
    assert found == ioam.Dex(0, 0, 0xF00000, 0xFFFFFFFF, None)


def test_a_trace_that_is_too_long() -> None:
    """What does not fit into an option is an error."""
    path = hops(*({"node_id": 1} for _ in range(62)))
    assert craft_ioam.trace_type_of(path) == 0x800000
    with pytest.raises(ValueError, match="length"):
        option_of(Keys({}), path)
