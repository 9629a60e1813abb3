"""Hashing: kernels agree with plain Python and zlib; copies are independent where they have to be."""

from __future__ import annotations

import zlib

import numpy as np
import numpy.typing as npt
import pytest

from hopscope.direct.hashing import POLYNOMIALS, Hashing, checksums_of, collectors_of, slots_of
from hopscope.direct.primitives.key_write import KeyWriteLayout
from oracle import hashing as twin
from support.direct.direct_make import as_bytes

pytestmark = pytest.mark.kernel

OURS = (Hashing.MIX, Hashing.CRC)


def params(
    hashing: Hashing, slots: int = 1 << 16, seed: int = 0, collectors: int = 1
) -> npt.NDArray[np.uint64]:
    return KeyWriteLayout(hashing=hashing, slots=slots, seed=seed, collectors=collectors, copies=16).params()


def some_keys(count: int, width: int, seed: int = 1) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (count, width)).astype(np.uint8)


@pytest.mark.parametrize("hashing", Hashing)
@pytest.mark.parametrize("width", [1, 2, 4, 7, 8, 9, 13, 16, 17, 37, 255])
def test_kernels_agree_with_plain_python(hashing: Hashing, width: int) -> None:
    """Slots, checksums and collectors, for keys at every distance from the array's end."""
    keys = some_keys(12, width)
    for slots, seed in ((1, 0), (1000, 7), (1 << 32, 2**64 - 1)):
        header = params(hashing, slots=slots, seed=seed, collectors=7)
        found = slots_of(header, keys)
        for key, row in zip(keys, found.tolist(), strict=True):
            assert row == [twin.slot(hashing, key.tobytes(), seed, copy, slots) for copy in range(16)]
        for bits in (8, 12, 32, 33, 64):
            expected = [twin.checksum(hashing, key.tobytes(), seed, bits) for key in keys]
            assert checksums_of(header, keys, bits).tolist() == expected
        assert collectors_of(header, keys).tolist() == [
            twin.collector(hashing, key.tobytes(), seed, 7) for key in keys
        ]


def test_a_checksum_that_would_be_0_is_another() -> None:
    """Of 8 bits none is 0, and the other 255 are equally frequent (chi-square, 254 degrees of freedom)."""
    for hashing in OURS:
        counts = np.bincount(
            checksums_of(params(hashing), some_keys(200_000, 13), 8).astype(int), minlength=256
        )
        assert counts[0] == 0
        assert chi_square(counts[1:]) < 254 + 4 * np.sqrt(2 * 254)


def test_published_is_zlibs_crc_of_the_little_endian_key() -> None:
    """Table of the published code's checksums and hashes (wire-formats.md, section 3)."""
    table = {
        0x00000001: (0x99F8B879, 0xFB42DEAD, 0x8C45EE3B, 0x154CBF81, 0x624B8F17),
        0x01020304: (0xE951A406, 0x3B881B1C, 0x4C8F2B8A, 0xD5867A30, 0xA2814AA6),
        0x0001E240: (0x092DB2AE, 0xE3654CD0, 0x94627C46, 0x0D6B2DFC, 0x7A6C1D6A),
        0xAABBCCDD: (0x5CFDECF9, 0x163F58D9, 0x6138684F, 0xF83139F5, 0x8F360963),
    }
    keys = as_bytes(np.array(list(table), np.uint64))
    header = params(Hashing.PUBLISHED, slots=1 << 32)
    assert checksums_of(header, keys, 32).tolist() == [row[0] for row in table.values()]
    assert slots_of(header, keys, 4).tolist() == [list(row[1:]) for row in table.values()]


def test_the_first_polynomial_is_zlibs() -> None:
    """Copy 0 of hashing CRC is the CRC of Ethernet over the key as it is on the wire."""
    keys = some_keys(20, 13)
    assert slots_of(params(Hashing.CRC, slots=1 << 32), keys, 1)[:, 0].tolist() == [
        zlib.crc32(key.tobytes()) for key in keys
    ]


def test_polynomials_are_primitive_and_distinct() -> None:
    """The order of x modulo each of them is 2^32 - 1; so none has a zero lowest coefficient either."""
    assert len(set(POLYNOMIALS)) == len(POLYNOMIALS) == 19
    order = (1 << 32) - 1
    for reflected in POLYNOMIALS:
        modulus = 1 << 32 | int(f"{reflected:032b}"[::-1], 2)
        assert power_of_x(order, modulus) == 1, f"{reflected:#x}"
        for prime in (3, 5, 17, 257, 65537):
            assert power_of_x(order // prime, modulus) != 1, f"{reflected:#x}"


@pytest.mark.parametrize("hashing", OURS)
@pytest.mark.parametrize("sequential", [False, True])
def test_slots_are_uniform_and_copies_independent(hashing: Hashing, sequential: bool) -> None:
    """Chi-square of single copies over 256 slots and of pairs of copies over 16 x 16, against 5 deviations.

    Keys one after the other may be spread more evenly than by chance (a CRC is linear), not less.
    """
    count = 100_000
    keys = as_bytes(np.arange(count, dtype=np.uint64), 13) if sequential else some_keys(count, 13)
    single = slots_of(params(hashing, slots=256), keys, 4)
    double = slots_of(params(hashing, slots=16), keys, 4)
    limit = 255 + 5 * np.sqrt(2 * 255)
    for one in range(4):
        assert chi_square(np.bincount(single[:, one].astype(int), minlength=256)) < limit
        for other in range(one):
            pairs = (double[:, one] * np.uint64(16) + double[:, other]).astype(int)
            assert chi_square(np.bincount(pairs, minlength=256)) < limit


@pytest.mark.parametrize("hashing", OURS)
def test_a_collision_in_one_copy_says_nothing_about_the_next(hashing: Hashing) -> None:
    """Of the pairs of keys that share their slot in copy 0, one in `slots` shares that of copy 1 too."""
    slots = 64
    found = slots_of(params(hashing, slots=slots), some_keys(3000, 13), 4)
    pairs = colliding(found[:, 0])
    for copy in (1, 2, 3):
        both = int((found[pairs[:, 0], copy] == found[pairs[:, 1], copy]).sum())
        expected = len(pairs) / slots
        assert abs(both - expected) < 5 * np.sqrt(expected), f"copy {copy}: {both} of {len(pairs)}"


def test_published_copies_are_one_function() -> None:
    """Keys that collide in copy 0 collide in every copy: redundancy of the published hashing is none."""
    found = slots_of(params(Hashing.PUBLISHED, slots=1 << 10), some_keys(3000, 4), 4)
    pairs = colliding(found[:, 0])
    assert len(pairs) > 1000
    for copy in (1, 2, 3):
        assert (found[pairs[:, 0], copy] == found[pairs[:, 1], copy]).all()


@pytest.mark.parametrize("hashing", OURS)
def test_checksum_and_collector_are_independent_of_slots(hashing: Hashing) -> None:
    """Chi-square of (slot, checksum) and of (slot, collector) over 16 x 16."""
    keys = some_keys(100_000, 8)
    header = params(hashing, slots=16, collectors=16)
    slots = slots_of(header, keys, 1)[:, 0]
    limit = 255 + 5 * np.sqrt(2 * 255)
    for other in (checksums_of(header, keys, 32) >> np.uint64(28), collectors_of(header, keys)):
        assert chi_square(np.bincount((slots * np.uint64(16) + other).astype(int), minlength=256)) < limit


def test_another_seed_is_another_function() -> None:
    """Two stores with different seeds do not lose the same keys."""
    keys = some_keys(5000, 13)
    one, other = (slots_of(params(Hashing.MIX, slots=64, seed=seed), keys, 1) for seed in (1, 2))
    assert abs(int((one == other).sum()) - 5000 / 64) < 5 * np.sqrt(5000 / 64)


def chi_square(counts: npt.NDArray[np.int64]) -> float:
    """Of counts that should be equal."""
    expected = counts.sum() / len(counts)
    return float(((counts - expected) ** 2 / expected).sum())


def colliding(slots: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Pairs of rows with the same slot."""
    one, other = np.triu_indices(len(slots), 1)
    equal = slots[one] == slots[other]
    return np.stack([one[equal], other[equal]], axis=1, dtype=np.int64)


def power_of_x(exponent: int, modulus: int) -> int:
    """x to a power, modulo a polynomial of degree 32 over GF(2)."""
    result, base = 1, 2
    while exponent:
        if exponent & 1:
            result = times(result, base, modulus)
        base = times(base, base, modulus)
        exponent >>= 1
    return result


def times(one: int, other: int, modulus: int) -> int:
    """Product of two polynomials over GF(2)."""
    product = 0
    while other:
        if other & 1:
            product ^= one
        other >>= 1
        one <<= 1
        if one >> 32:
            one ^= modulus
    return product
