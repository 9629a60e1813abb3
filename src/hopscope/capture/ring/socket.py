"""Packet sockets with a receive ring (packet(7), TPACKET_V3): made by one process, mapped by another."""

from __future__ import annotations

import errno
import os
import socket
import struct
from dataclasses import dataclass

from ...settings.listen import ListenSettings
from ...settings.source import url
from ..bpf import NOTHING, attach, by_addresses
from ..errors import CaptureError, InterfaceGoneError
from ..layout import BLOCK_PRIVATE
from .filter import compile_filter
from .report_filter import by_frame_source, reports_to

SOL_PACKET = 263
_ADD_MEMBERSHIP, _RX_RING, _STATISTICS, VERSION = 1, 5, 6, 10
VNET_HDR, _FANOUT, _FANOUT_DATA, _IGNORE_OUTGOING = 15, 18, 22, 23
TPACKET_V3 = 2
_PROMISCUOUS = 1
_ALL_PROTOCOLS = 3
_ETHERNET_TYPES = (1, 772)
"""ARPHRD_ETHER and loopback, whose frames have an Ethernet header too."""
_SO_ATTACH_FILTER, _SO_DETACH_FILTER = 26, 27
_BY_HASH, _BY_PROGRAM, _UNIQUE, _DEFRAGMENT = 0, 6, 0x2000, 0x8000

BLOCK_BYTES = 1 << 17
"""Block size: enough for the largest frame that GRO makes (64 KiB), or for 600 small frames."""
SOON_BLOCK_BYTES = 1 << 14
"""Block size of a ring whose frames are forwarded. Below 1,000 frames per second, every frame takes a block
of its own, so blocks are small, but hold the frames of any network card (jumbo frames have 9,000 bytes).
"""
_FRAME_BYTES = 2048  # only checked by the kernel, in this version of the ring
_RETIRE_MS, _RETIRE_SOON_MS = 16, 1
"""How long the kernel holds back a block that is not full; with forwarding, about until a worker looks again.

While no worker reads it, a ring of 32 MiB holds the frames of 4 s (2 s with forwarding), or 150,000 frames of
100 bytes, whichever is less. A restart takes 0.2 s with forwarding, 2 s without.
"""


@dataclass(frozen=True, slots=True)
class Geometry:
    """Blocks of a receive ring."""

    blocks: int
    retire_ms: int
    block_bytes: int = BLOCK_BYTES

    @classmethod
    def of(cls, settings: ListenSettings, block_bytes: int = 0) -> Geometry:
        """As many blocks as fit into the settings' ring size. `block_bytes` 0: depends on forwarding."""
        retire_ms = _RETIRE_SOON_MS if settings.output else _RETIRE_MS
        block_bytes = block_bytes or (SOON_BLOCK_BYTES if settings.output else BLOCK_BYTES)
        return cls(settings.ring_bytes // block_bytes, retire_ms, block_bytes)

    @property
    def nbytes(self) -> int:
        """Bytes of the ring."""
        return self.blocks * self.block_bytes

    def request(self) -> bytes:
        """struct tpacket_req3."""
        counts = (self.block_bytes, self.blocks, _FRAME_BYTES, self.nbytes // _FRAME_BYTES)
        return struct.pack("<7I", *counts, self.retire_ms, BLOCK_PRIVATE, 0)


def source_of(settings: ListenSettings) -> dict[str, object]:
    """What a listener's socket depends on: a listener with an equal source can use the socket."""
    made = settings.model_dump(
        mode="json", include={"kind", "interface", "output", "workers", "ring_bytes", "promiscuous"}
    )
    return {**made, "ring": list(Geometry.of(settings).request())}


def bind_ring(
    settings: ListenSettings, first: socket.socket | None = None, block_bytes: int = 0
) -> socket.socket:
    """A packet socket with a ring for the frames of an interface. Raises CaptureError.

    `block_bytes`: a power of two, a page or more; the longest frame must fit into a block. 0: see `Geometry`.

    It receives nothing before `apply_filter`, so that the sockets of all workers can be made first, and a
    flow stays in the ring of its first packet. `first`: the socket of worker 0, whose group the others join.
    """
    named, interface = url(settings), settings.interface
    program(settings)
    try:
        handle = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
    except PermissionError as error:
        raise CaptureError(
            f"{named}: reading an interface needs root or the capability CAP_NET_RAW"
        ) from error
    try:
        attach(handle, socket.SOL_SOCKET, _SO_ATTACH_FILTER, NOTHING)
        handle.setsockopt(SOL_PACKET, VERSION, TPACKET_V3)
        handle.setsockopt(SOL_PACKET, VNET_HDR, 1)
        _ignore_outgoing(handle)
        handle.setsockopt(SOL_PACKET, _RX_RING, Geometry.of(settings, block_bytes).request())
        handle.bind((interface, _ALL_PROTOCOLS))
        if settings.promiscuous:
            member = struct.pack("<iHH8x", socket.if_nametoindex(interface), _PROMISCUOUS, 0)
            handle.setsockopt(SOL_PACKET, _ADD_MEMBERSHIP, member)
        if handle.getsockname()[3] not in _ETHERNET_TYPES:
            raise CaptureError(f"{named}: the interface has no Ethernet frames")
        if settings.workers > 1:
            _share(handle, first, settings)
    except OSError as error:
        handle.close()
        raise CaptureError(_refusal(settings, error)) from error
    except CaptureError:
        handle.close()
        raise
    return handle


def _ignore_outgoing(handle: socket.socket) -> None:
    """Exclude frames that this machine sends (since Linux 4.20; on older kernels, frames are marked)."""
    try:
        handle.setsockopt(SOL_PACKET, _IGNORE_OUTGOING, 1)
    except OSError:
        return


def _share(handle: socket.socket, first: socket.socket | None, settings: ListenSettings) -> None:
    """Share frames among workers by a hash of their flow (PACKET_FANOUT_HASH), in a group of this listener.

    Fragments are reassembled, so that they reach the worker of their flow. Forwarded frames must not be
    changed, and the frames of a flow must keep their order even if only some have INT, which changes ports
    and protocol; so they are shared by their addresses. Reports are shared by their source.
    """
    how = _BY_HASH
    if settings.output or settings.kind == "ring":
        how = _BY_PROGRAM
    if not settings.output:
        how |= _DEFRAGMENT
    if first is None:
        group, how = 0, how | _UNIQUE  # the kernel chooses the group's number
    else:
        group = first.getsockopt(SOL_PACKET, _FANOUT) & 0xFFFF
    handle.setsockopt(SOL_PACKET, _FANOUT, struct.pack("<HH", group, how))
    if settings.kind == "ring":
        attach(handle, SOL_PACKET, _FANOUT_DATA, by_frame_source(settings.workers))
    elif settings.output:
        attach(handle, SOL_PACKET, _FANOUT_DATA, by_addresses(settings.workers))


def _refusal(settings: ListenSettings, error: OSError) -> str:
    named = url(settings)
    if error.errno == errno.ENODEV:
        return f"{named}: this machine has no such interface"
    if error.errno == errno.ENOMEM:
        return f"{named}: no memory for a ring of {Geometry.of(settings).nbytes:,} bytes; lower ring_bytes"
    if error.errno == errno.EINVAL and settings.workers > 1:
        return f"{named}: the interface cannot be shared by workers; it must be up at the start"
    return f"{named}: {error.strerror or error}"


def apply_filter(handle: socket.socket, settings: ListenSettings) -> None:
    """Let frames into the ring: all, those that the filter in the settings accepts, or reports. Raises
    CaptureError.
    """
    instructions = program(settings)
    try:
        if instructions:
            attach(handle, socket.SOL_SOCKET, _SO_ATTACH_FILTER, instructions)
        else:
            handle.setsockopt(socket.SOL_SOCKET, _SO_DETACH_FILTER, 0)
    except OSError as error:
        if error.errno == errno.ENOENT:
            return  # a worker before this one has detached it
        raise CaptureError(f"{url(settings)}: the kernel refuses the filter ({error.strerror})") from error


def program(settings: ListenSettings) -> bytes:
    """The filter of the settings as struct sock_filter [lines]; empty: none. Raises CaptureError."""
    if settings.kind == "ring":
        return reports_to(settings.port, promiscuous=settings.promiscuous)
    try:
        return compile_filter(settings.filter)
    except ValueError as error:
        raise CaptureError(f"{url(settings)}: found filter {settings.filter[:40]!r}, {error}") from None


def dropped(handle: socket.socket) -> int:
    """Frames that the kernel dropped because the ring was full, since the last call."""
    _, drops, _ = struct.unpack("<3I", handle.getsockopt(SOL_PACKET, _STATISTICS, 12))
    return int(drops)


def check_socket(handle: socket.socket, settings: ListenSettings) -> None:
    """Raise CaptureError if the socket failed; InterfaceGoneError if the interface was deleted.

    The kernel reports an interface that is down once; it recovers by itself.
    """
    if not (error := handle.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)):
        return
    if error != errno.ENETDOWN:
        raise CaptureError(f"{url(settings)}: receiving failed ({os.strerror(error)})")
    if not handle.getsockname()[0]:
        raise InterfaceGoneError(f"{url(settings)}: the interface is gone")
