"""Memory regions that a NIC tells its new peer by SEND: what they are called, where they are, and their keys.

The published collector sends 16 bytes for one region. Ours says what is in the memory too, so that a
translator needs no configuration of it: as many messages as the path MTU asks for, each with a header

    magic 8 B · version u16 · regions in all u16 · number of the first u16 · regions in this message u16

and for each region: name 32 B (UTF-8, zeros behind) · address u64 · length u64 · key u32 · access u32 ·
params u64 × 32 (the header of its store). Numbers are little-endian in both, as in the published code.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..base.errors import HopscopeError

MAGIC = b"HOPSTORE"
VERSION = 1
PARAMS = 32
NAME_BYTES = 32
MOST = 1024
"""Regions of one advertisement."""
_PUBLISHED = struct.Struct("<QII")
_HEAD = struct.Struct("<8sHHHH")
_REGION = struct.Struct(f"<{NAME_BYTES}sQQII{8 * PARAMS}s")
LEAST_MTU = 512
"""Path MTU of which a message holds a region."""


class AdvertisementError(HopscopeError):
    """A message is no advertisement, or contradicts those before it; the text says how."""


@dataclass(frozen=True, slots=True)
class RemoteRegion:
    """Memory of the peer."""

    name: str
    address: int
    length: int
    """Bytes."""
    key: int
    access: int = 0
    """Bits of `records.Access`; 0 where it was not told."""
    params: tuple[int, ...] = (0,) * PARAMS
    """How a store reads it (`direct.layout`): 32 numbers of 64 bits; zeros where it was not told."""

    def array(self) -> npt.NDArray[np.uint64]:
        """`params` as uint64 [32]."""
        return np.array(self.params, np.uint64)


def encode_published(region: RemoteRegion) -> bytes:
    """The published form: address, length and key, 16 bytes. ValueError where the length has over 32 bits."""
    if region.length >> 32:
        raise ValueError(f"{region.name} has {region.length:,} bytes, and the published form tells 32 bits")
    return _PUBLISHED.pack(region.address, region.length, region.key)


def decode_published(message: bytes, name: str = "") -> RemoteRegion:
    """The inverse. Raises AdvertisementError."""
    if len(message) != _PUBLISHED.size:
        raise AdvertisementError(f"an advertisement of {len(message)} bytes, expected 16")
    address, length, key = _PUBLISHED.unpack(message)
    _check(name, address, length)
    return RemoteRegion(name, address, length, key)


def encode(regions: Iterable[RemoteRegion], path_mtu: int = 1024) -> list[bytes]:
    """Our form: messages of one packet each, at least one. ValueError for what does not fit: a name over 32
    bytes, other than 32 params, over 1024 regions, an MTU below 512.
    """
    every = list(regions)
    if path_mtu < LEAST_MTU or len(every) > MOST:
        raise ValueError(
            f"{len(every)} regions over a path MTU of {path_mtu}: at most {MOST}, at least {LEAST_MTU}"
        )
    room = (path_mtu - _HEAD.size) // _REGION.size
    messages = []
    for first in range(0, len(every), room) if every else [0]:
        part = every[first : first + room]
        body = b"".join(_packed(region) for region in part)
        messages.append(_HEAD.pack(MAGIC, VERSION, len(every), first, len(part)) + body)
    return messages


def _packed(region: RemoteRegion) -> bytes:
    name = region.name.encode()
    if not 0 < len(name) <= NAME_BYTES or len(region.params) != PARAMS:
        raise ValueError(f"region '{region.name}': 1 to 32 bytes of name and 32 params fit")
    params = struct.pack(f"<{PARAMS}Q", *region.params)
    return _REGION.pack(name, region.address, region.length, region.key, region.access, params)


@dataclass(slots=True)
class Advertisement:
    """Collects the messages of one connection until all regions are known."""

    regions: dict[int, RemoteRegion] = field(default_factory=dict)
    """By number: the index in the advertisement."""
    total: int | None = None
    """Regions in all, once a message has come."""

    @property
    def complete(self) -> bool:
        """Whether every region has been told."""
        return self.total is not None and len(self.regions) == self.total

    def take(self, message: bytes, name: str = "") -> bool:
        """Read one message, of either form (`name`: of the published form's region); whether all is known.

        Raises AdvertisementError, and then nothing of the message is kept. A message that comes again
        changes nothing.
        """
        if not message.startswith(MAGIC):
            total, first, part = 1, 0, [decode_published(message, name)]
        else:
            total, first, part = _decode(message)
        if self.total not in (None, total):
            raise AdvertisementError(f"an advertisement of {total} regions, after one of {self.total}")
        told = dict(enumerate(part, first))
        changed = [number for number, one in told.items() if self.regions.get(number, one) != one]
        names = {one.name: number for number, one in (self.regions | told).items()}
        if changed or len(names) != len(self.regions | told):
            raise AdvertisementError(f"regions {first} to {first + len(part) - 1} were told otherwise before")
        self.total = total
        self.regions |= told
        return self.complete

    def named(self, name: str) -> RemoteRegion:
        """The region of this name. Raises AdvertisementError."""
        for region in self.regions.values():
            if region.name == name:
                return region
        told = ", ".join(region.name for region in self.regions.values()) or "none"
        raise AdvertisementError(f"the collector has no store '{name}'; it has told of {told}")


def _decode(message: bytes) -> tuple[int, int, list[RemoteRegion]]:
    """(regions in all, number of the first, regions) of a message of our form."""
    if len(message) < _HEAD.size:
        raise AdvertisementError(f"an advertisement of {len(message)} bytes, its header needs {_HEAD.size}")
    _, version, total, first, count = _HEAD.unpack_from(message)
    if version != VERSION:
        raise AdvertisementError(f"an advertisement of version {version}, expected {VERSION}")
    size = _HEAD.size + count * _REGION.size
    if len(message) != size or total > MOST or first + count > total or (total and not count):
        raise AdvertisementError(
            f"regions {first} to {first + count} of {total} in {len(message)} bytes, expected {size}"
        )
    regions = []
    for i in range(count):
        at = _HEAD.size + i * _REGION.size
        name, address, length, key, access, params = _REGION.unpack_from(message, at)
        try:
            text = name.rstrip(b"\0").decode()
        except UnicodeDecodeError:
            raise AdvertisementError(f"region {first + i} has a name that is not UTF-8: {name!r}") from None
        if not text.isprintable() or not text:
            raise AdvertisementError(f"region {first + i} has the name {text!r}")
        _check(text, address, length)
        regions.append(RemoteRegion(text, address, length, key, access, struct.unpack(f"<{PARAMS}Q", params)))
    return total, first, regions


def _check(name: str, address: int, length: int) -> None:
    if address + length > 1 << 64:
        raise AdvertisementError(f"region '{name}' of {length:,} bytes at {address:#x} ends beyond 64 bits")
