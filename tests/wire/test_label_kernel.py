"""The batch decoder of INT-label reads what the scalar one does, damage included."""

from __future__ import annotations

import random

import numpy as np
import pytest

from hopscope.wire.label.batch import LabelDecoder, encode_blocks
from hopscope.wire.label.codec import LabelFlow, push_flow, push_label, read_labels
from hopscope.wire.label.layout import LabelItem, PublishedItem
from hopscope.wire.label.records import LABEL
from hopscope.wire.reasons import Reason
from hopscope.wire.records import FRAME, FrameBatch, Link
from oracle.label import decode_scalar
from support.packets.label_cases import probe
from support.packets.packet_cases import Packet
from support.packets.wire_cases import frame_batch

pytestmark = pytest.mark.kernel


def _item(rng: random.Random) -> LabelItem:
    bits = (rng.getrandbits(width) for width in (32, 16, 16, 64, 32, 32))
    return LabelItem(*bits)


def _published(rng: random.Random) -> PublishedItem:
    return PublishedItem(*(rng.getrandbits(width) for width in (8, 8, 8, 48, 48, 32, 24, 32, 24)))


def _seeds(rng: random.Random) -> list[tuple[bytes, int]]:
    """Labelled packets of both forms, export datagrams, packets without labels; with their link."""
    out: list[tuple[bytes, int]] = []
    for version in (4, 6):
        for tags in (0, 1, 2):
            for tracked in (False, True):
                frame = Packet(version=version, tags=tags, options=tracked, trailer=bytes(tags)).frame()
                out.append((frame, Link.ETHERNET))
                for _ in range(3):
                    frame = push_label(frame, _item(rng), tracked=tracked)
                out.append((frame, Link.ETHERNET))
                ip = frame[14 + 4 * tags :]
                out.append((ip, Link.RAW_IP))
                labels = read_labels(frame)
                assert labels
                block = frame[labels.at : labels.end]
                out.append((block * (1 + tags), Link.UDP_PAYLOAD))
                flow = bytearray()
                push_flow(flow, LabelFlow(rng.getrandbits(128), rng.getrandbits(128), 0, 53, 40_000))
                out.append(((bytes(flow) + block) * (1 + tags), Link.UDP_PAYLOAD))
    for route in ((), (1, 2, 3)):
        frame = probe(route)
        for _ in range(3):
            frame = push_label(frame, _published(rng))
        out.append((frame, Link.ETHERNET))
    return out


def _mutants(rng: random.Random, count: int) -> list[tuple[bytes, int]]:
    seeds = _seeds(rng)
    out = list(seeds)
    while len(out) < count:
        raw, link = rng.choice(seeds)
        frame = bytearray(raw)
        for _ in range(rng.choice((0, 1, 1, 2))):
            frame[rng.randrange(min(70, len(frame)))] = rng.choice((0, 1, 4, 255, rng.randrange(256)))
        size = rng.choice((len(frame), len(frame), rng.randrange(len(frame) + 1)))
        out.append((bytes(frame[:size]), link))
    return out


def _batch(frames: list[tuple[bytes, int]], filler: int) -> FrameBatch:
    batch = frame_batch([raw for raw, _ in frames], gap=40, filler=filler)
    batch.frames["link"] = [link for _, link in frames]
    batch.frames["wire_length"][::7] += 1
    return batch


def test_mutants_are_read_alike() -> None:
    """Changed and cut frames give the same labels, codes and counts in both decoders, whatever bytes are
    around them.
    """
    frames = _mutants(random.Random(253), 2500)
    scalar = decode_scalar(_batch(frames, 0))
    decoder = LabelDecoder()
    for filler in (0, 255):
        found = decoder.decode(_batch(frames, filler))
        assert found.labels.tobytes() == scalar.labels.tobytes()
        assert found.flows.tobytes() == scalar.flows.tobytes()
        assert (found.codes == scalar.codes).all()
        assert (found.packets, found.other) == (scalar.packets, scalar.other)
    refused = scalar.refused
    for reason in (Reason.TRUNCATED, Reason.BAD_LENGTH, Reason.UNKNOWN_TYPE, Reason.UNKNOWN_VERSION):
        assert refused[reason] > 0
    assert scalar.packets > 800
    assert len(scalar.flows) > 200
    assert scalar.other > 100
    assert refused.sum() == len(frames)


def test_settings_are_obeyed() -> None:
    """MAX_hop and the protocol are those that were asked for; a larger batch than before fits."""
    rng = random.Random(5)
    frame = Packet().frame()
    for _ in range(3):
        frame = push_label(frame, _item(rng), max_hop=9, protocol=200)
    assert LabelDecoder().decode(frame_batch([frame])).other == 1
    found = LabelDecoder(9, protocol=200).decode(frame_batch([frame] * 5000))
    assert (len(found.labels), found.packets) == (15_000, 5000)
    assert found.labels["packet"].tolist() == np.repeat(np.arange(5000), 3).tolist()
    assert LabelDecoder(2, protocol=200).decode(frame_batch([frame])).labels["tracked"].tolist() == [1]


def test_the_owner_of_a_label_is_who_sent_it() -> None:
    """The same for the addresses of one IPv6 /64; 0 without a secret."""
    labels = np.zeros(1, LABEL)
    labels["node_id"], labels["count"] = 5, 1
    raw = np.frombuffer(encode_blocks(labels), np.uint8)
    frames = np.zeros(40, FRAME)
    frames["length"] = frames["wire_length"] = len(raw)
    frames["link"] = Link.UDP_PAYLOAD
    frames["source_hi"][30:], frames["source_lo"] = 0x20010DB8 << 32, np.arange(40) + 1
    batch = FrameBatch(raw, frames)
    assert not LabelDecoder().decode(batch).labels["owner"].any()
    owners = LabelDecoder(secret=b"secret").decode(batch).labels["owner"]
    assert len(set(owners[:30].tolist())) > 20
    assert len(set(owners[30:].tolist())) == 1
