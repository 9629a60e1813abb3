"""Sockets for reports: addresses, buffers, the filter that chooses a worker by the source address."""

from __future__ import annotations

import ctypes
import errno
import socket
import sys

from ..settings.listen import ListenSettings
from ..settings.source import url
from .bpf import attach, by_source
from .errors import CaptureError
from .interface import index_of

UDP_SEGMENT, UDP_GRO = 103, 104
SO_RXQ_OVFL = 40
SO_MEMINFO = 55
SO_ATTACH_REUSEPORT_CBPF = 51
_SO_RCVBUFFORCE = 33
_IP_MTU_DISCOVER, _IPV6_MTU_DISCOVER, _PMTUDISC_DO = 10, 23, 2
_MEMINFO_DROPS = 8


def require_linux() -> None:
    """Raise CaptureError unless the structures of system calls are those of 64-bit Linux."""
    if (
        not sys.platform.startswith("linux")
        or ctypes.sizeof(ctypes.c_void_p) != 8
        or sys.byteorder != "little"
    ):
        raise CaptureError(
            "UDP capture needs Linux on a 64-bit little-endian machine; capture files are read everywhere"
        )


def resolve(host: str, port: int, named: str) -> tuple[socket.AddressFamily, tuple[object, ...]]:
    """Family and socket address of a host. Raises CaptureError."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    except (socket.gaierror, UnicodeError) as error:
        raise CaptureError(f"{named}: {host!r} is not known ({getattr(error, 'strerror', error)})") from error
    return found[0][0], found[0][4]


def bind_share(settings: ListenSettings, index: int = 0, first: socket.socket | None = None) -> socket.socket:
    """The bound, non-blocking socket of worker `index` of a listener. Raises CaptureError.

    One process opens them all, in the order of the workers, and hands them out: so they outlive a worker that
    is restarted, its datagrams wait, and no source moves to another worker.  (A socket that is closed changes
    the places of the others.)  Port 0: put the port of the first into the settings of the others.  `first`:
    the socket of worker 0, which the others of an interface need.
    """
    require_linux()
    if settings.interface:
        from .ring.socket import bind_ring

        if settings.output:
            index_of(settings.output)  # the sender is opened later, by the worker
        return bind_ring(settings, first)
    if settings.workers > 1 and index == 0:
        # another collector's shares of the port do not prevent ours: so try without sharing first
        _bind(settings, share=1).close()
    return _bind(settings, share=settings.workers)


def loopback_receiver() -> socket.socket:
    """A socket that this process reaches: on ::1 where there is no 127.0.0.1, as in some namespaces."""
    try:
        return _bind(ListenSettings(port=0), share=1)
    except CaptureError:
        return _bind(ListenSettings(host="::1", port=0), share=1)


def _bind(settings: ListenSettings, share: int) -> socket.socket:
    named = url(settings)
    family, address = resolve(settings.host, settings.port, named)
    handle = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    try:
        if family == socket.AF_INET6:
            handle.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(address[0] != "::"))
        if share > 1:
            handle.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if kernel_drops(handle) is None:  # after a drop, it costs 54 ns at each datagram
            handle.setsockopt(socket.SOL_SOCKET, SO_RXQ_OVFL, 1)
        _ask_buffer(handle, settings.receive_buffer_bytes)
        if settings.gro:
            take_trains(handle)
        handle.bind(address)
        if share > 1:
            attach(handle, socket.SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, by_source(share))
    except OSError as error:
        handle.close()
        raise CaptureError(_refusal(named, error)) from error
    return handle


def take_trains(handle: socket.socket) -> bool:
    """Ask for datagrams merged by the kernel (UDP_GRO); False if it cannot (before 5.0)."""
    return _try_option(handle, socket.IPPROTO_UDP, UDP_GRO, 1)


def do_not_fragment(handle: socket.socket) -> None:
    """Set DF on what it sends; IPv4 packets of a socket without a peer then have identification 0."""
    if handle.family == socket.AF_INET6:
        handle.setsockopt(socket.IPPROTO_IPV6, _IPV6_MTU_DISCOVER, _PMTUDISC_DO)
    else:
        handle.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _PMTUDISC_DO)


def granted_buffer(handle: socket.socket) -> int:
    """Receive buffer that the kernel granted, bytes; it doubles this for its own bookkeeping."""
    return handle.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2


def kernel_drops(handle: socket.socket) -> int | None:
    """Datagrams that the kernel dropped at this socket, modulo 2^32; None before Linux 4.12."""
    try:
        words = handle.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 64)
    except OSError:
        return None
    return int.from_bytes(words[4 * _MEMINFO_DROPS : 4 * _MEMINFO_DROPS + 4], sys.byteorder)


def _ask_buffer(handle: socket.socket, size: int) -> None:
    """Ask for a receive buffer, above the system's limit if permitted."""
    size = min(size, 2**30 - 1)
    if not _try_option(handle, socket.SOL_SOCKET, _SO_RCVBUFFORCE, size):
        handle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)


def _try_option(handle: socket.socket, level: int, option: int, value: int) -> bool:
    try:
        handle.setsockopt(level, option, value)
    except OSError:
        return False
    return True


def _refusal(named: str, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"{named}: the port is in use by another program; stop it or choose another port"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"{named}: not permitted; a port below 1024 needs CAP_NET_BIND_SERVICE"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{named}: the address is none of this machine"
    return f"{named}: {error.strerror or error}"
