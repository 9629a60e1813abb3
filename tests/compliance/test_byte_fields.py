"""Bytes of reports, field by field: every byte once, and hops where tshark sees them with our dissector."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np

from hopscope.wire.craft.frames import craft
from hopscope.wire.decode.byte_fields import ByteField, explained, leaves
from hopscope.wire.decode.plain import decode_plain
from hopscope.wire.dialect import DEFAULT
from hopscope.wire.records import FRAME, FrameBatch, Link
from hopscope.wire.versions import IFA
from support.packets.corpus import Seed, corpus
from support.packets.tshark import Tshark

HOP_FIELDS = ("node_id", "hop_latency", "queue_id", "queue_occupancy", "ingress_port", "egress_port")


def batch_of(seeds: list[Seed]) -> FrameBatch:
    """Frames one after the other."""
    frames = np.zeros(len(seeds), FRAME)
    frames["length"] = frames["wire_length"] = [len(seed.raw) for seed in seeds]
    frames["offset"] = np.cumsum(frames["length"]) - frames["length"]
    frames["link"] = [seed.link for seed in seeds]
    return FrameBatch(np.frombuffer(b"".join(seed.raw for seed in seeds), np.uint8), frames)


def hop_places(fields: list[ByteField]) -> Counter[tuple[str, int, int]]:
    """(Field, offset, value) of the values of hops."""
    found: Counter[tuple[str, int, int]] = Counter()
    for header in fields:
        if header.name.startswith("hop "):
            for each in header.fields:
                name = each.name.replace(" ", "_")
                if name in HOP_FIELDS and each.text != "unavailable":
                    found[name, each.offset, each.value or 0] += 1
    return found


def test_every_byte_is_in_a_field() -> None:
    """Of reports of every version and carrier: leaves cover the frame, none has a byte of another header, and
    each number is that of its bits.
    """
    seeds = list(corpus())
    batch = batch_of(seeds)
    reports = decode_plain(batch).reports
    assert len(reports) > 300
    for row in reports[reports["reason"] == 0]:
        seed = seeds[int(row["packet"])]
        covered: Counter[int] = Counter()
        for leaf in leaves(explained(seed.raw, seed.link, row, DEFAULT)):
            if leaf.value is not None:
                number = int.from_bytes(seed.raw[leaf.offset : leaf.offset + leaf.length], "big")
                bits = leaf.bits or 8 * leaf.length
                shift = 8 * leaf.length - leaf.first_bit - bits
                assert number >> shift & ((1 << bits) - 1) == leaf.value, (leaf, seed.raw.hex())
            assert leaf.name != "damaged", (leaf, seed.raw.hex())
            for at in range(leaf.offset, leaf.offset + leaf.length):
                covered[at] += 1 if not leaf.bits else 0
                covered[at] |= 0
        assert set(covered) == set(range(len(seed.raw)))
        assert max(covered.values()) <= 1


def test_tshark_sees_hops_at_the_same_bytes(tshark: Tshark) -> None:
    """Values of hops by (field, offset, value), as tshark has them, in all Ethernet frames without IFA, whose
    fields have names of their own (see test_dissector_ifa).
    """
    seeds = [seed for seed in corpus() if seed.link == Link.ETHERNET]
    batch = batch_of(seeds)
    ours: dict[int, Counter[tuple[str, int, int]]] = {}
    reports = decode_plain(batch).reports
    for row in reports[(reports["reason"] == 0) & (reports["int_version"] != IFA)]:
        at = int(row["packet"])
        places = hop_places(explained(seeds[at].raw, seeds[at].link, row, DEFAULT))
        ours[at] = ours.get(at, Counter()) + places
    found = json.loads(
        tshark.run(tshark.write("seeds.pcap", batch), "-T", "jsonraw", "--no-duplicate-keys"),
    )
    compared = 0
    for at, packet in enumerate(found):
        theirs = Counter(_values(packet["_source"]["layers"]))
        mine = ours.get(at, Counter())
        if mine and theirs:
            assert mine == theirs, seeds[at].raw.hex()
            compared += sum(mine.values())
    assert compared > 1000


def _values(node: Any, name: str = "") -> list[tuple[str, int, int]]:
    """(Field, offset, value) of all values of hops below a node of tshark's raw JSON."""
    if isinstance(node, dict):
        return [each for key, value in node.items() for each in _values(value, key)]
    if not isinstance(node, list):
        return []
    field = name.removeprefix("hopscope.int.hop.").removesuffix("_raw")
    if name.startswith("hopscope.int.hop.") and field in HOP_FIELDS:
        rows = node if isinstance(node[0], list) else [node]
        return [(field, int(at), int(text, 16)) for text, at, *_ in rows if set(text) != {"f"}]
    return [each for value in node for each in _values(value, name)]


def test_damage_is_explained_and_never_fatal() -> None:
    """Frames that are cut, and with bytes changed by chance after decoding: fields still cover them."""
    rng = np.random.default_rng(5)
    seeds = list(corpus())[::7]
    batch = batch_of(seeds)
    for row in (reports := decode_plain(batch).reports)[reports["reason"] == 0]:
        seed = seeds[int(row["packet"])]
        for _ in range(3):
            raw = bytearray(seed.raw)
            for at in rng.integers(0, len(raw), 4).tolist():
                raw[at] = int(rng.integers(0, 256))
            cut = bytes(raw[: int(rng.integers(0, len(raw) + 1))])
            fields = explained(cut, seed.link, row, DEFAULT)
            covered = {at for leaf in leaves(fields) for at in range(leaf.offset, leaf.offset + leaf.length)}
            assert covered == set(range(len(cut)))


def test_ip_and_ioam_have_headers() -> None:
    """An IP header is no unnamed data, and IOAM is found within the one that holds it."""
    flow = {"src": "2001:db8::1", "dst": "2001:db8::2"}
    for mode, header in (("preallocated", "IOAM trace"), ("dex", "IOAM direct export")):
        frames = craft([{"report": {}, "flow": flow, "int": {"version": "ioam", "mode": mode}}])
        row = decode_plain(frames).reports[0]
        found = explained(frames.arena.tobytes(), Link.ETHERNET, row, DEFAULT)
        names = [each.name for each in found if each.fields]
        assert [name for name in names if name.startswith(("IP", "IOAM"))] == [
            "IPv4", "IPv6", "IOAM option", header,
        ]  # fmt: skip
