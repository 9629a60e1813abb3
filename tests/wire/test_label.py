"""INT-label's scalar codec: what is pushed is read, and what is restored is what was sent."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopscope.wire.errors import WireError
from hopscope.wire.headers.ethernet import checksum
from hopscope.wire.label.batch import encode_blocks
from hopscope.wire.label.codec import Form, LabelFlow, push_label, read_blocks, read_labels, restore
from hopscope.wire.label.layout import LabelItem, PublishedItem
from hopscope.wire.label.records import LABEL, LABEL_FLOW
from hopscope.wire.reasons import Place, Reason
from hopscope.wire.records import Link
from oracle.label import decode_scalar
from support.packets.label_cases import probe, published_items, states
from support.packets.packet_cases import Packet, packets
from support.packets.wire_cases import frame_batch


@given(packets, st.lists(states, min_size=1, max_size=5), st.booleans(), st.sampled_from((253, 200)))
@settings(max_examples=150, derandomize=True)
def test_push_and_restore(packet: Packet, items: list[LabelItem], tracked: bool, protocol: int) -> None:
    """Labels come out as they went in, newest first; the IP header stays right with each; the restored frame
    is the original, byte for byte.
    """
    frame = original = packet.frame()
    assert read_labels(frame, protocol=protocol) is None
    ip = 14 + 4 * packet.tags
    for number, item in enumerate(items, 1):
        frame = push_label(frame, item, tracked=tracked, protocol=protocol)
        found = read_labels(frame, protocol=protocol)
        assert found is not None
        assert (found.form, found.tracked) == (Form.PAPER, tracked)
        assert found.items == tuple(items[:number][::-1])
        assert frame[found.at + 1] == number + 5 * tracked
        size = int.from_bytes(
            frame[ip + 2 : ip + 4] if packet.version == 4 else frame[ip + 4 : ip + 6], "big"
        )
        size += 0 if packet.version == 4 else 40
        assert len(frame) - len(packet.trailer) == ip + size
        if packet.version == 4:
            assert checksum(frame[ip : found.at]) == 0
    assert restore(frame, protocol=protocol) == original


@given(st.binary(min_size=2, max_size=2), st.binary(min_size=2, max_size=2), states)
@settings(max_examples=100, derandomize=True)
def test_wrong_checksums_come_back(check: bytes, identification: bytes, item: LabelItem) -> None:
    """A checksum that was wrong before is as wrong with the label, and comes back as it was; 0xFFFF, which
    could not, is not labelled.
    """
    frame = bytearray(Packet().frame())
    frame[18:20], frame[24:26] = identification, check
    if check == b"\xff\xff":
        with pytest.raises(WireError, match="0xffff"):
            push_label(bytes(frame), item)
        return
    wrong = checksum(bytes(frame[14:34])) in (0, 0xFFFF)
    labelled = push_label(bytes(frame), item)
    assert (checksum(labelled[14:34]) in (0, 0xFFFF)) == wrong
    assert restore(labelled) == frame


@given(
    st.lists(published_items, min_size=1, max_size=6),
    st.lists(st.integers(0, 255), max_size=4),
    st.booleans(),
)
@settings(max_examples=80, derandomize=True)
def test_published_form(items: list[PublishedItem], route: list[int], specific: bool) -> None:
    """The published code's packets, with a source route and at the last hop; more than MAX_hop labels are no
    tracked flow there; restored is what the sender wrote.
    """
    frame = original = probe(tuple(route), specific=specific)
    for item in items:
        frame = push_label(frame, item)
    found = read_labels(frame)
    assert found is not None
    assert (found.form, found.tracked, found.items) == (Form.PUBLISHED, False, tuple(items[::-1]))
    assert found.next_header == specific << 7
    assert restore(frame) == original


def test_published_item_as_a_state() -> None:
    """Times of the published code are us, its latency is from ingress to egress and wraps at 48 bits."""
    item = PublishedItem(7, 1, 2, (1 << 48) - 3, 4, dequeue_depth=9)
    assert item.state() == LabelItem(7, 1, 2, 4000, 7000, 9)
    assert PublishedItem(7, 1, 2, 0, 1 << 40).state().latency_ns == 0xFFFFFFFF


def test_what_is_not_labelled() -> None:
    """Full packets, packets of another kind, cut and over-long ones are refused, and the reason is told."""
    frame = Packet().frame()
    item = LabelItem(1)
    full = frame
    for _ in range(3):
        full = push_label(full, item, max_hop=3)
    tracked = push_label(frame, item, max_hop=3, tracked=True)
    for _ in range(251):
        tracked = push_label(tracked, item, max_hop=3)
    long = Packet(payload=bytes(65_535 - 28 - 34)).frame()
    assert len(push_label(long, item)) == 14 + 65_535
    too_long = Packet(payload=bytes(65_535 - 28 - 33)).frame()
    cases: list[tuple[bytes, LabelItem | PublishedItem, int, Reason]] = [
        (full, item, 3, Reason.TOO_MANY_HOPS), (tracked, item, 3, Reason.TOO_MANY_HOPS),
        (frame[:12] + b"\x08\x06" + frame[14:], item, 5, Reason.UNKNOWN_TYPE),
        (frame, PublishedItem(1), 5, Reason.UNKNOWN_TYPE), (probe(), item, 5, Reason.UNKNOWN_TYPE),
        (frame[:-1], item, 5, Reason.TRUNCATED), (too_long, item, 5, Reason.BAD_LENGTH),
    ]  # fmt: skip
    for raw, one, max_hop, reason in cases:
        with pytest.raises(WireError) as told:
            push_label(raw, one, max_hop=max_hop)
        assert told.value.reason is reason


def test_damage_is_told() -> None:
    """A frame that says it is labelled and is cut, or whose IP length ends too early, is refused where it
    breaks; what is cut before that shows carries no labels.
    """
    frame = push_label(push_label(Packet(tags=1).frame(), LabelItem(1)), LabelItem(2))
    option = 14 + 4 + 20
    for size in range(len(frame)):
        if size < option:
            assert read_labels(frame[:size]) is None
        elif size < option + 66:
            with pytest.raises(WireError) as told:
                read_labels(frame[:size])
            assert (told.value.reason, told.value.place) == (Reason.TRUNCATED, Place.LABEL)
        else:
            assert read_labels(frame[:size]) is not None  # the packet is cut, its labels are not
            with pytest.raises(WireError, match="IP packet"):
                restore(frame[:size])
    short = frame[:20] + (20 + 65).to_bytes(2, "big") + frame[22:]
    with pytest.raises(WireError, match="bad_length at label"):
        read_labels(short)
    below = frame[:20] + (19).to_bytes(2, "big") + frame[22:]
    with pytest.raises(WireError, match="below the header"):
        read_labels(below)
    route = probe((1, 2))
    for size in range(14, len(route) - 20):
        with pytest.raises(WireError, match="truncated at label"):
            read_labels(route[:size])
    with pytest.raises(WireError, match="type 0x0800"):
        read_labels(route.replace(b"\x07\x01", b"\x08\x00"))


@given(st.lists(st.lists(states, min_size=1, max_size=4), min_size=1, max_size=4), st.booleans())
@settings(max_examples=60, derandomize=True)
def test_export_datagrams(paths: list[list[LabelItem]], tracked: bool) -> None:
    """Labels of several packets come out of a last hop's datagram as they went in, in path order; blocks in
    front of damage are kept.
    """
    rows = [
        (one.time_ns - ((one.time_ns >> 63) << 64), one.node_id, one.latency_ns, one.occupancy, packet,
         one.ingress_port, one.egress_port, position, len(path), tracked, 0)
        for packet, path in enumerate(paths)
        for position, one in enumerate(path)
    ]  # fmt: skip
    labels = np.array(rows, LABEL)
    datagram = encode_blocks(labels)
    batch = frame_batch([datagram, datagram[:-1], datagram + bytes(2), b""], Link.UDP_PAYLOAD)
    found = decode_scalar(batch)
    again = found.labels[: len(labels)]
    assert again.tobytes() == labels.tobytes()
    assert (found.codes >> 8).tolist() == [0, Reason.TRUNCATED, Reason.BAD_LENGTH, Reason.TRUNCATED]
    assert found.packets == 3 * len(paths) - 1
    blocks, error = read_blocks(datagram)
    assert error is None
    assert [block.path() for block in blocks] == [tuple(path) for path in paths]


def test_flows_in_export_datagrams() -> None:
    """A block says its packet's flow, ports and IPv6 too, or says nothing, as those of before; one of another
    version, cut, or without items behind it is refused where it begins.
    """
    labels = np.zeros(5, LABEL)
    labels["packet"], labels["count"], labels["node_id"] = [0, 0, 1, 2, 2], [2, 2, 1, 2, 2], range(5)
    labels["position"], labels["tracked"] = [0, 1, 0, 0, 1], [1, 1, 0, 1, 1]
    v6 = 0xFD00 << 112 | 7
    told = [LabelFlow(0xFFFF0A000002, 0xFFFF0A000103, 6, 40_000, 443), LabelFlow(v6, v6 + 1, 58)]
    flows = np.zeros(2, LABEL_FLOW)
    for row, flow, packet in zip(flows, told, (0, 2), strict=True):
        row["src_hi"], row["src_lo"] = flow.source >> 64, flow.source % 2**64
        row["dst_hi"], row["dst_lo"] = flow.destination >> 64, flow.destination % 2**64
        row["sport"], row["dport"] = flow.source_port, flow.destination_port
        row["proto"], row["packet"] = flow.protocol, packet
    datagram = encode_blocks(labels, flows=flows, next_header=17)
    blocks, error = read_blocks(datagram)
    assert error is None
    assert [block.flow for block in blocks] == [told[0], None, told[1]]
    assert [(block.next_header, block.tracked) for block in blocks] == [(6, True), (17, False), (58, True)]
    found = decode_scalar(frame_batch([datagram], Link.UDP_PAYLOAD))
    assert found.flows.tobytes() == flows.tobytes()
    assert found.labels.tobytes() == labels.tobytes()
    last = len(encode_blocks(labels[:3], flows=flows))
    for broken, reason, at in (
        (datagram[:last] + b"\2" + datagram[last + 1 :], Reason.UNKNOWN_VERSION, last),
        (datagram[: last + 20], Reason.TRUNCATED, last),
        (datagram[: last + 39], Reason.TRUNCATED, last + 38),
        (datagram[: last + 38] + bytes(2), Reason.BAD_LENGTH, last),
        (datagram[: last + 38] + datagram[last:], Reason.BAD_LENGTH, last),
    ):
        blocks, error = read_blocks(broken)
        assert error is not None
        assert (len(blocks), error.reason, error.place, error.at) == (2, reason, Place.LABEL, at)


def test_too_many_labels_for_an_option() -> None:
    """A packet with more labels than MAX_hop cannot be told from a tracked one, and is not written."""
    labels = np.zeros(4, LABEL)
    with pytest.raises(ValueError, match="at most 3"):
        encode_blocks(labels, max_hop=3)
