"""Advertisement of a NIC's memory regions to a new peer, by SEND: names, addresses and keys.

The published collector sends 16 bytes for one region. Our format also describes the memory's content, so a
translator needs no configuration: as many messages as the path MTU requires, each with a header

    magic 8 B · version u16 · total regions u16 · number of the first u16 · regions in this message u16

and for each region: name 32 B (UTF-8, zero-padded) · address u64 · length u64 · key u32 · access u32 · epoch
u32 · progress u32 · params u64 × 32 (the header of its store). Numbers are little-endian in both formats, as
in the published code. Our format has three further messages, each with a magic, the version, and a region's
number:

- progress: part of the state of the region's content that a writer needs to continue it, such as the ends of
  lists: offset u32, then bytes. A connection is ready when the `progress` bytes of every region have arrived.
- renewal: memory of a new epoch replaces the region: epoch u32 · address u64 · key u32. Operations submitted
  before still reach the old memory.
- moved: the peer's answer to a renewal, after its last operation on the old memory: epoch u32.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from ..base.errors import HopscopeError

SERVICE_PORT = 1330
"""RDMA-CM port on which a collector announces all its stores in our format."""
MAGIC = b"HOPSTORE"
VERSION = 2
PARAMS = 32
NAME_BYTES = 32
MAX_REGIONS = 1024
"""Maximum regions of one advertisement."""
_PUBLISHED = struct.Struct("<QII")
_HEAD = struct.Struct("<8sHHHH")
_REGION = struct.Struct(f"<{NAME_BYTES}sQQIIII{8 * PARAMS}s")
_PROGRESS, PROGRESS_MAGIC = struct.Struct("<8sHHI"), b"HOPSTATE"
_RENEWAL, RENEWAL_MAGIC = struct.Struct("<8sHHIQI"), b"HOPEPOCH"
_MOVED, MOVED_MAGIC = struct.Struct("<8sHHI"), b"HOPMOVED"
ALIVE = b"HOPALIVE"
"""A message without content, which checks whether its receiver is alive."""
MIN_MTU = 512
"""Smallest path MTU with room for a region in a message."""


class AdvertisementError(HopscopeError):
    """Not an advertisement, or one that contradicts earlier ones."""


@dataclass(frozen=True, slots=True)
class RemoteRegion:
    """A memory region of the peer."""

    name: str
    address: int
    length: int
    """Bytes."""
    key: int
    access: int = 0
    """Bits of `records.Access`; 0: not advertised."""
    params: tuple[int, ...] = (0,) * PARAMS
    """Header of its store (`direct.stores.params`), 32 numbers of 64 bits; zeros: not advertised."""
    epoch: int = 0
    progress: int = 0
    """Bytes of progress that are sent after the advertisement."""

    def array(self) -> npt.NDArray[np.uint64]:
        """`params` as uint64 [32]."""
        return np.array(self.params, np.uint64)


def encode_published(region: RemoteRegion) -> bytes:
    """The published format: address, length and key, 16 bytes. Raises ValueError above 32 bits of length."""
    if region.length >> 32:
        raise ValueError(f"{region.name} has {region.length:,} bytes, the published format has 32 bits")
    return _PUBLISHED.pack(region.address, region.length, region.key)


def decode_published(message: bytes, name: str = "") -> RemoteRegion:
    """The inverse of `encode_published`. Raises AdvertisementError."""
    if len(message) != _PUBLISHED.size:
        raise AdvertisementError(f"an advertisement of {len(message)} bytes, expected 16")
    address, length, key = _PUBLISHED.unpack(message)
    _check(name, address, length)
    return RemoteRegion(name, address, length, key)


def encode(regions: Iterable[RemoteRegion], path_mtu: int = 1024) -> list[bytes]:
    """Our format, as one or more messages of one packet each. Raises ValueError for a name over 32 bytes, a
    number of params other than 32, more than 1024 regions, or an MTU below 512.
    """
    all_regions = list(regions)
    if path_mtu < MIN_MTU or len(all_regions) > MAX_REGIONS:
        raise ValueError(
            f"{len(all_regions)} regions over a path MTU of {path_mtu}, expected at most {MAX_REGIONS} "
            f"and at least {MIN_MTU}"
        )
    room = (path_mtu - _HEAD.size) // _REGION.size
    messages = []
    for first in range(0, len(all_regions), room) if all_regions else [0]:
        part = all_regions[first : first + room]
        body = b"".join(_packed(region) for region in part)
        messages.append(_HEAD.pack(MAGIC, VERSION, len(all_regions), first, len(part)) + body)
    return messages


def _packed(region: RemoteRegion) -> bytes:
    name = region.name.encode()
    if not 0 < len(name) <= NAME_BYTES or len(region.params) != PARAMS:
        raise ValueError(f"region '{region.name}': expected 1 to 32 bytes of name and 32 params")
    params = struct.pack(f"<{PARAMS}Q", *region.params)
    return _REGION.pack(
        name, region.address, region.length, region.key, region.access, region.epoch, region.progress, params
    )


def encode_progress(number: int, progress: bytes, path_mtu: int = 1024) -> Iterator[bytes]:
    """A region's progress in messages of one packet each."""
    room = path_mtu - _PROGRESS.size
    for at in range(0, len(progress), room):
        yield _PROGRESS.pack(PROGRESS_MAGIC, VERSION, number, at) + progress[at : at + room]


@dataclass(frozen=True, slots=True)
class Renewal:
    """Announces that memory of a new epoch replaces a region."""

    number: int
    """Number of the region in the advertisement."""
    epoch: int
    address: int
    key: int

    def encode(self) -> bytes:
        """The message."""
        return _RENEWAL.pack(RENEWAL_MAGIC, VERSION, self.number, self.epoch, self.address, self.key)

    @property
    def moved(self) -> bytes:
        """The answer of a peer that has moved to the new memory."""
        return _MOVED.pack(MOVED_MAGIC, VERSION, self.number, self.epoch)


def decode_moved(message: bytes) -> tuple[int, int] | None:
    """Region number and epoch of the answer to a renewal; None: another message."""
    if len(message) != _MOVED.size or not message.startswith(MOVED_MAGIC):
        return None
    _, version, number, epoch = _MOVED.unpack(message)
    return (number, epoch) if version == VERSION else None


@dataclass(slots=True)
class Advertisement:
    """Collects the messages of one connection until all regions are known."""

    regions: dict[int, RemoteRegion] = field(default_factory=dict)
    """Regions by number, their index in the advertisement."""
    total: int | None = None
    """Total number of regions, known once a message has arrived."""
    progress: dict[int, bytearray] = field(default_factory=dict)
    """State that writers need, by region number."""

    @property
    def complete(self) -> bool:
        """Whether all regions are known."""
        return (
            self.total is not None
            and len(self.regions) == self.total
            and all(
                len(self.progress.get(number, b"")) == region.progress
                for number, region in self.regions.items()
                if region.progress
            )
        )

    def take(self, message: bytes, name: str = "") -> bool:
        """Read one message of either format; True once all regions are known.

        `name`: name for the region of the published format. Raises AdvertisementError, in which case the
        message has no effect. A repeated message has no effect either.
        """
        if message.startswith(PROGRESS_MAGIC):
            self._take_progress(message)
            return self.complete
        if not message.startswith(MAGIC):
            total, first, part = 1, 0, [decode_published(message, name)]
        else:
            total, first, part = _decode(message)
        if self.total not in (None, total):
            raise AdvertisementError(f"an advertisement of {total} regions, after one of {self.total}")
        received = dict(enumerate(part, first))
        changed = [
            number for number, region in received.items() if self.regions.get(number, region) != region
        ]
        names = {region.name for region in (self.regions | received).values()}
        if changed or len(names) != len(self.regions | received):
            raise AdvertisementError(
                f"regions {first} to {first + len(part) - 1} contradict an earlier message"
            )
        self.total = total
        self.regions |= received
        return self.complete

    def renew(self, message: bytes) -> Renewal | None:
        """Read a renewal of a known region; None: another message. Raises AdvertisementError."""
        if not message.startswith(RENEWAL_MAGIC):
            return None
        if len(message) != _RENEWAL.size:
            raise AdvertisementError(f"a renewal of {len(message)} bytes, expected {_RENEWAL.size}")
        _, version, number, epoch, address, key = _RENEWAL.unpack(message)
        region = self.regions.get(number)
        if version != VERSION or region is None:
            raise AdvertisementError(f"a renewal of version {version} of region {number}")
        _check(region.name, address, region.length)
        self.regions[number] = replace(region, address=address, key=key, epoch=epoch, progress=0)
        self.progress.pop(number, None)
        return Renewal(number, epoch, address, key)

    def _take_progress(self, message: bytes) -> None:
        if len(message) < _PROGRESS.size:
            raise AdvertisementError(f"progress of {len(message)} bytes, its header needs {_PROGRESS.size}")
        _, version, number, at = _PROGRESS.unpack_from(message)
        region, part = self.regions.get(number), message[_PROGRESS.size :]
        known = self.progress.setdefault(number, bytearray())
        if version != VERSION or region is None or at != len(known) or at + len(part) > region.progress:
            raise AdvertisementError(f"progress of region {number} from byte {at} on, after {len(known)}")
        known += part

    def named(self, name: str) -> RemoteRegion:
        """The region of this name. Raises AdvertisementError."""
        for region in self.regions.values():
            if region.name == name:
                return region
        known = ", ".join(region.name for region in self.regions.values()) or "none"
        raise AdvertisementError(f"the collector has no store '{name}'; it advertised {known}")


def _decode(message: bytes) -> tuple[int, int, list[RemoteRegion]]:
    """(total regions, number of the first region, regions) of a message of our format."""
    if len(message) < _HEAD.size:
        raise AdvertisementError(f"an advertisement of {len(message)} bytes, its header needs {_HEAD.size}")
    _, version, total, first, count = _HEAD.unpack_from(message)
    if version != VERSION:
        raise AdvertisementError(f"an advertisement of version {version}, expected {VERSION}")
    size = _HEAD.size + count * _REGION.size
    if len(message) != size or total > MAX_REGIONS or first + count > total or (total and not count):
        raise AdvertisementError(
            f"regions {first} to {first + count} of {total} in {len(message)} bytes, expected {size}"
        )
    regions = []
    for i in range(count):
        at = _HEAD.size + i * _REGION.size
        name, address, length, key, access, epoch, progress, params = _REGION.unpack_from(message, at)
        try:
            text = name.rstrip(b"\0").decode()
        except UnicodeDecodeError:
            raise AdvertisementError(f"region {first + i} has a name that is not UTF-8: {name!r}") from None
        if not text.isprintable() or not text:
            raise AdvertisementError(f"region {first + i} has the name {text!r}")
        _check(text, address, length)
        header = struct.unpack(f"<{PARAMS}Q", params)
        regions.append(RemoteRegion(text, address, length, key, access, header, epoch, progress))
    return total, first, regions


def _check(name: str, address: int, length: int) -> None:
    if address + length > 1 << 64:
        raise AdvertisementError(f"region '{name}' of {length:,} bytes at {address:#x} ends beyond 64 bits")
