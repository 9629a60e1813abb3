"""Regions told by SEND: what is encoded is decoded, and what is damaged is a clear error."""

from __future__ import annotations

import dataclasses
import random
import struct

import pytest

from hopscope.rdma.advertisement import (
    Advertisement,
    AdvertisementError,
    RemoteRegion,
    Renewal,
    decode_moved,
    decode_published,
    encode,
    encode_progress,
    encode_published,
)


def regions(count: int, seed: int = 1) -> list[RemoteRegion]:
    rng = random.Random(seed)
    return [
        RemoteRegion(f"störe-{i}", rng.getrandbits(63), rng.getrandbits(40), rng.getrandbits(32), 3,
                     tuple(rng.getrandbits(64) for _ in range(32)), rng.getrandbits(32))
        for i in range(count)
    ]  # fmt: skip


@pytest.mark.parametrize("mtu", [512, 1024, 4096])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 13, 40])
def test_what_is_encoded_is_decoded(mtu: int, count: int) -> None:
    """Any number of regions, in messages that fit a packet, in any order and doubled."""
    every = regions(count)
    messages = encode(every, mtu)
    assert all(len(message) <= mtu for message in messages)
    random.Random(2).shuffle(messages)
    told = Advertisement()
    done = [told.take(message) for message in [*messages, *messages]]
    assert done == [False] * (len(messages) - 1) + [True] * (len(messages) + 1)
    assert [told.regions[i] for i in range(count)] == every
    for region in every:
        assert told.named(region.name) == region
        assert told.named(region.name).array().tolist() == list(region.params)


def test_progress_completes_an_advertisement() -> None:
    """3,000 bytes in messages of one packet; a gap, a repetition or more than announced is an error."""
    region = dataclasses.replace(regions(1)[0], progress=3000)
    data = random.Random(4).randbytes(3000)
    parts = list(encode_progress(0, data, 1024))
    assert [len(part) for part in parts] == [1024, 1024, 1000]
    told = Advertisement()
    assert [told.take(message) for message in [*encode([region]), *parts]] == [False, False, False, True]
    assert told.progress[0] == data
    other = list(encode_progress(1, b"x"))
    for wrong in ([parts[1]], [parts[0], parts[0]], [*parts, parts[2]], [parts[0][:15]], other):
        told = Advertisement()
        for message in [*encode([region]), *wrong[:-1]]:
            told.take(message)
        with pytest.raises(AdvertisementError, match="progress of"):
            told.take(wrong[-1])


def test_a_renewal_replaces_a_region() -> None:
    """Address, key and epoch change; another region, version or length is an error."""
    told, renewal = Advertisement(), Renewal(0, 7, 1 << 45, 99)
    told.take(encode(regions(1))[0])
    assert told.renew(b"HOPALIVE") is None
    assert told.renew(renewal.encode()) == renewal
    assert (told.regions[0].address, told.regions[0].key, told.regions[0].epoch) == (1 << 45, 99, 7)
    assert decode_moved(renewal.moved) == (0, 7)
    assert decode_moved(renewal.encode()) is None
    for wrong in (
        renewal.encode()[:-1],
        Renewal(1, 7, 1, 1).encode(),
        Renewal(0, 7, (1 << 64) - 1, 1).encode(),
    ):
        with pytest.raises(AdvertisementError):
            told.renew(wrong)


def test_the_published_form() -> None:
    """16 bytes, little-endian: address, length, key."""
    message = struct.pack("<QII", 0x7F0011223344, 1 << 20, 0xDEAD)
    region = decode_published(message, "key-write")
    assert (region.address, region.length, region.key) == (0x7F0011223344, 1 << 20, 0xDEAD)
    assert encode_published(region) == message
    told = Advertisement()
    assert told.take(message, "key-write")
    assert told.named("key-write") == region
    with pytest.raises(ValueError, match="has 32 bits"):
        encode_published(dataclasses.replace(region, length=1 << 32))


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (b"", "0 bytes, expected 16"),
        (bytes(17), "17 bytes, expected 16"),
        (struct.pack("<QII", (1 << 64) - 8, 9, 1), "ends beyond 64 bits"),
        (b"HOPSTORE", "8 bytes, its header needs 16"),
        (struct.pack("<8sHHHH", b"HOPSTORE", 1, 1, 0, 1), "version 1, expected 2"),
        (struct.pack("<8sHHHH", b"HOPSTORE", 2, 1, 0, 1), "in 16 bytes, expected 336"),
        (struct.pack("<8sHHHH", b"HOPSTORE", 2, 5, 0, 0), "regions 0 to 0 of 5"),
        (struct.pack("<8sHHHH", b"HOPSTORE", 2, 0, 1, 0), "regions 1 to 1 of 0"),
        (struct.pack("<8sHHHH320s", b"HOPSTORE", 2, 1, 0, 1, b"\xff"), "not UTF-8"),
        (struct.pack("<8sHHHH320s", b"HOPSTORE", 2, 1, 0, 1, b"a\nb"), "has the name"),
        (struct.pack("<8sHHHH320s", b"HOPSTORE", 2, 1, 0, 1, b""), "has the name ''"),
        (struct.pack("<8sHHHH32sQQ272s", b"HOPSTORE", 2, 1, 0, 1, b"a", 1 << 63, 1 << 63 | 1, b""), "beyond"),
    ],
)
def test_what_is_no_advertisement(message: bytes, says: str) -> None:
    """Another size, version, count, name or end: one line that says what was found."""
    told = Advertisement()
    with pytest.raises(AdvertisementError, match=says):
        told.take(message)
    assert told == Advertisement()


def test_contradictions_are_refused() -> None:
    """Another total, another region under a known number, or a name told twice: the first word stands."""
    one, two, three = regions(3)
    told = Advertisement()
    assert not told.take(encode([one, two], 512)[0])
    before = dataclasses.replace(told, regions=dict(told.regions))
    for other in (
        encode([one, two, three], 512)[1],
        encode([three, two], 512)[0],
        encode([two, one], 512)[1],
    ):
        with pytest.raises(AdvertisementError):
            told.take(other)
        assert told == before
    with pytest.raises(AdvertisementError, match="no store 'x'; it advertised störe-0"):
        told.named("x")


def test_damaged_messages() -> None:
    """5,000 messages with changed bytes or cut: read, or an AdvertisementError, and nothing else."""
    rng = random.Random(3)
    outcomes: set[str] = set()
    for _ in range(5000):
        raw = bytearray(encode(regions(2), 1024)[0])
        for _ in range(rng.randrange(1, 4)):
            raw[rng.choice([rng.randrange(len(raw)), rng.randrange(64)])] = rng.getrandbits(8)
        message = bytes(raw[: rng.randrange(len(raw))] if rng.random() < 0.2 else raw)
        told = Advertisement()
        outcomes.add(took(told, message))
    assert outcomes == {"read", "refused"}


def took(told: Advertisement, message: bytes) -> str:
    try:
        told.take(message)
    except AdvertisementError as error:
        return "refused" if "\n" not in str(error) and told == Advertisement() else f"half taken: {error}"
    return "read"


@pytest.mark.parametrize(
    ("count", "mtu", "name"), [(1025, 1024, "a"), (1, 256, "a"), (1, 1024, "a" * 33), (1, 1024, "")]
)
def test_what_does_not_fit(count: int, mtu: int, name: str) -> None:
    """Too many regions, too small packets, and names too long or empty are refused at the sender."""
    every = [dataclasses.replace(regions(1)[0], name=name)] * count
    with pytest.raises(ValueError, match=r"regions over|32 bytes of name"):
        encode(every, mtu)
