"""Places as numbers: no two places have the same one."""

from __future__ import annotations

from itertools import product

import numpy as np

from hopscope.detect.places import Place, keys_of, keys_of_places, places_of, ports_of
from hopscope.detect.records import NO_PORT

NODE = 0xFFFFFFFE << 32
BY_HAND: list[tuple[Place, int]] = [
    ((0xFFFFFFFE, None, None), NODE),
    ((0xFFFFFFFE, None, 0), NODE | 1),
    ((0xFFFFFFFE, None, 255), NODE | 256),
    ((0xFFFFFFFE, 0, None), NODE | 0x200),
    ((0xFFFFFFFE, 0, 0), NODE | 0x201),
    ((0xFFFFFFFE, 0, 255), NODE | 0x300),
    ((0xFFFFFFFE, 1, None), NODE | 0x400),
    ((0xFFFFFFFE, 0xFFFE, 255), NODE | 0x1FFFF00),
    ((0xFFFFFFFE, 0xFFFF, None), NODE | 0x8000FFFF),  # an ifIndex
    ((0xFFFFFFFE, 0x10001, None), NODE | 0x80010001),
    ((0xFFFFFFFE, 0x3FFFFFFF, None), NODE | 0xBFFFFFFF),
    ((0xFFFFFFFE, None, 256), NODE | 0xC0000100),  # a buffer
    ((0xFFFFFFFE, None, 0x3FFFFFFF), NODE | 0xFFFFFFFF),
]
"""In the order of their numbers."""


def test_numbers_are_those_written_by_hand() -> None:
    """Of the least and largest ids, and of unknown ones; they ascend by port and queue."""
    places, numbers = zip(*BY_HAND, strict=True)
    assert keys_of_places(places).tolist() == list(numbers)
    assert list(numbers) == sorted(numbers)
    assert places_of(np.array(numbers, np.uint64)) == list(places)


def test_every_place_has_a_number_of_its_own() -> None:
    """Also places whose ids differ by 2^8, 2^16 or 2^32 - 1."""
    ports = (None, 0, 1, 255, 256, 0xFFFE)
    places: list[Place] = list(product((0, 1, 256, 0xFFFFFFFF), ports, (None, 0, 1, 254, 255)))
    for node, wide in product((0, 1, 0xFFFFFFFF), (0xFFFF, 0x10000, 0x10001, 0x100FF, 0x20001, 0x3FFFFFFE)):
        places += [(node, wide, None), (node, None, wide)]
    keys = keys_of_places(places)
    assert len(np.unique(keys)) == len(places)
    assert places_of(keys) == places


def test_the_port_of_a_record_may_be_unknown() -> None:
    """Records of 16 bits say so by NO_PORT, which is a port where ids have 30 bits."""
    port = np.array([3, NO_PORT], np.uint16)
    node, queue = np.array([7, 7], np.uint32), np.array([2, 2], np.uint32)
    assert places_of(keys_of(node, ports_of(port), queue)) == [(7, 3, 2), (7, None, 2)]
