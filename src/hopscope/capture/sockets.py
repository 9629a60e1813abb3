"""Sockets for reports: addresses, buffers, and the filter that chooses a worker by source address."""

from __future__ import annotations

import ctypes
import errno
import socket
import sys
from collections.abc import Iterable

from ..settings.listen import ListenSettings
from ..settings.source import url
from .bpf import attach, by_source
from .errors import CaptureError
from .interface import index_of

UDP_SEGMENT, UDP_GRO = 103, 104
SO_RXQ_OVFL = 40
SO_MEMINFO = 55
SO_ATTACH_REUSEPORT_CBPF = 51
_SO_NETNS_COOKIE = 71
_SO_RCVBUFFORCE = 33
_IP_MTU_DISCOVER, _IPV6_MTU_DISCOVER, _PMTUDISC_DO = 10, 23, 2
_MEMINFO_WAITING, _MEMINFO_DROPS = 0, 8
_BACKLOG = 128


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


def free_udp_port() -> int:
    """A UDP port that is free now on loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def resolve(host: str, port: int, named: str) -> tuple[socket.AddressFamily, tuple[object, ...]]:
    """Family and socket address of a host. Raises CaptureError."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    except (socket.gaierror, UnicodeError) as error:
        raise CaptureError(f"{named}: {host!r} is not known ({getattr(error, 'strerror', error)})") from error
    return found[0][0], found[0][4]


def bind_share(settings: ListenSettings, index: int = 0, first: socket.socket | None = None) -> socket.socket:
    """The bound, non-blocking socket of worker `index` of a listener. Raises CaptureError.

    One process opens all of them, in the order of the workers, and hands them out. So they outlive a
    restarted worker, whose datagrams wait, and no source moves to another worker. (Closing a socket would
    change the places of the others.)  With port 0, put the port of the first into the settings of the others.
    `first`: the socket of worker 0, which the others of an interface need. `bind_shares` opens all of them.
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


def bind_shares(settings: ListenSettings) -> list[socket.socket]:
    """`bind_share` for all workers of a listener, in their order. Raises CaptureError."""
    shares = list[socket.socket]()
    try:
        for index in range(settings.workers):
            shares.append(bind_share(settings, index, shares[0] if shares else None))
            if not settings.interface:
                settings = settings.model_copy(update={"port": shares[0].getsockname()[1]})
    except CaptureError:
        close_all(shares)
        raise
    return shares


def close_all(handles: Iterable[socket.socket]) -> None:
    """Close sockets."""
    for handle in handles:
        handle.close()


def fits(handle: socket.socket, settings: ListenSettings) -> bool:
    """Whether a socket that an earlier process has bound receives what a listener's `workers` should receive.

    Raises CaptureError if its host is not known.
    """
    family, address = resolve(settings.host, settings.port, url(settings))
    options = (socket.SO_DOMAIN, socket.SO_TYPE, socket.SO_PROTOCOL)
    found = [handle.getsockopt(socket.SOL_SOCKET, option) for option in options]
    if found != [family, socket.SOCK_DGRAM, socket.IPPROTO_UDP] or handle.getsockname() != address:
        return False
    if _option(handle, socket.IPPROTO_UDP, UDP_GRO) == 1 and not settings.gro:
        return False  # what waits may be trains
    with socket.socket() as here:
        return _namespace(handle) == _namespace(here)


def resume_shares(settings: ListenSettings, shares: list[socket.socket]) -> None:
    """Make the fitting sockets of an earlier process those of this listener. Raises CaptureError.

    They receive on while their number changes. With more workers, the new ones join their group. With fewer,
    those above `workers` get nothing any more, but what waits in them can be read.
    """
    several = max(len(shares), settings.workers) > 1
    try:
        for share in shares:
            share.setblocking(False)
            share.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, several)
            _ask_buffer(share, settings.receive_buffer_bytes)
            if settings.gro:
                enable_gro(share)
        while len(shares) < settings.workers:
            shares.append(_bind(settings, share=settings.workers))
        if several:
            attach(shares[0], socket.SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, by_source(settings.workers))
    except OSError as error:
        raise CaptureError(_refusal(url(settings), error)) from error


def loopback_receiver() -> socket.socket:
    """A receiving loopback socket, on ::1 if 127.0.0.1 does not exist, as in some namespaces."""
    try:
        return _bind(ListenSettings(port=0), share=1)
    except CaptureError:
        return _bind(ListenSettings(host="::1", port=0), share=1)


def _bind(settings: ListenSettings, share: int) -> socket.socket:
    named = url(settings)
    family, address = resolve(settings.host, settings.port, named)
    type_ = socket.SOCK_STREAM if settings.over_tcp else socket.SOCK_DGRAM
    handle = socket.socket(family, type_ | socket.SOCK_NONBLOCK)
    try:
        if family == socket.AF_INET6:
            handle.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(address[0] != "::"))
        if share > 1:
            handle.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if settings.over_tcp:  # the kernel distributes connections, not sources
            handle.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            handle.bind(address)
            handle.listen(_BACKLOG)
            return handle
        if kernel_drops(handle) is None:  # after a drop, it costs 54 ns at each datagram
            handle.setsockopt(socket.SOL_SOCKET, SO_RXQ_OVFL, 1)
        _ask_buffer(handle, settings.receive_buffer_bytes)
        if settings.gro:
            enable_gro(handle)
        handle.bind(address)
        if share > 1:
            attach(handle, socket.SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, by_source(share))
    except OSError as error:
        handle.close()
        raise CaptureError(_refusal(named, error)) from error
    return handle


def enable_gro(handle: socket.socket) -> bool:
    """Ask for datagrams merged by the kernel (UDP_GRO); False if it cannot (before 5.0)."""
    return _try_option(handle, socket.IPPROTO_UDP, UDP_GRO, 1)


def do_not_fragment(handle: socket.socket) -> None:
    """Set DF on sent packets; IPv4 packets of an unconnected socket then have identification 0."""
    if handle.family == socket.AF_INET6:
        handle.setsockopt(socket.IPPROTO_IPV6, _IPV6_MTU_DISCOVER, _PMTUDISC_DO)
    else:
        handle.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _PMTUDISC_DO)


def granted_buffer(handle: socket.socket) -> int:
    """Receive buffer that the kernel granted, bytes; it doubles this for its own bookkeeping."""
    return handle.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2


def kernel_drops(handle: socket.socket) -> int | None:
    """Datagrams that the kernel dropped at this socket, modulo 2^32; None before Linux 4.12."""
    return _memory_of(handle, _MEMINFO_DROPS)


def waiting_bytes(handle: socket.socket) -> int:
    """Memory of the datagrams that wait at this socket; 0 before Linux 4.12."""
    return _memory_of(handle, _MEMINFO_WAITING) or 0


def _memory_of(handle: socket.socket, word: int) -> int | None:
    try:
        words = handle.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 64)
    except OSError:
        return None
    return int.from_bytes(words[4 * word : 4 * word + 4], sys.byteorder)


def _option(handle: socket.socket, level: int, option: int) -> int | None:
    """Value of an option; None: the kernel does not support it."""
    try:
        return handle.getsockopt(level, option)
    except OSError:
        return None


def _namespace(handle: socket.socket) -> bytes:
    """Identifier of the socket's network namespace; empty before Linux 5.14."""
    try:
        return handle.getsockopt(socket.SOL_SOCKET, _SO_NETNS_COOKIE, 8)
    except OSError:
        return b""


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
        return f"{named}: the port is in use by another program; stop it or choose another port or address"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"{named}: not permitted; a port below 1024 needs CAP_NET_BIND_SERVICE"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{named}: the address is none of this machine"
    return f"{named}: {error.strerror or error}"
