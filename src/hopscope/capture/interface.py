"""Properties of network interfaces, from the kernel (netdevice(7))."""

from __future__ import annotations

import fcntl
import socket
import struct

from .errors import CaptureError

_ETHERNET = 1  # ARPHRD_ETHER
_GET_FLAGS, _GET_MTU, _GET_ADDRESS = 0x8913, 0x8921, 0x8927  # SIOCGIFFLAGS, SIOCGIFMTU, SIOCGIFHWADDR
_RUNNING = 0x40  # IFF_RUNNING: up, and with a carrier


def index_of(interface: str, named: str = "") -> int:
    """Number of an interface; `named`: its name in errors. Raises CaptureError."""
    try:
        return socket.if_nametoindex(interface)
    except OSError as error:
        raise CaptureError(f"{named or interface}: this machine has no such interface") from error


def exists(interface: str) -> bool:
    """Whether this network namespace has an interface."""
    try:
        return socket.if_nametoindex(interface) > 0
    except OSError:
        return False


def ethernet_index_of(interface: str) -> int:
    """Number of an Ethernet interface. Raises CaptureError."""
    index = index_of(interface)
    try:
        kind = struct.unpack_from("<H", _asked(interface, _GET_ADDRESS, None))[0]
    except OSError as error:
        raise CaptureError(f"{interface}: {error.strerror}") from error
    if kind != _ETHERNET:
        raise CaptureError(f"{interface}: found no Ethernet interface, expected one")
    return index


def mtu_of(interface: str, by: socket.socket | None = None) -> int:
    """MTU of an interface in bytes; `by`: the socket for the request, else a new one. Raises OSError."""
    return int(struct.unpack_from("<i", _asked(interface, _GET_MTU, by))[0])


def has_carrier(interface: str, by: socket.socket | None = None) -> bool:
    """Whether an interface and its other end are up; `by`: see `mtu_of`. Raises OSError.

    The kernel reports changes at once, or within a second if links change more often than that.
    """
    return bool(struct.unpack_from("<h", _asked(interface, _GET_FLAGS, by))[0] & _RUNNING)


def address_of(interface: str, by: socket.socket | None = None) -> bytes:
    """Ethernet address, 6 bytes; `by`: see `mtu_of`. Raises OSError."""
    return _asked(interface, _GET_ADDRESS, by)[2:8]


def _asked(interface: str, request: int, by: socket.socket | None) -> bytes:
    """The bytes after the name in `struct ifreq`."""
    if by is None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
            return _asked(interface, request, made)
    return fcntl.ioctl(by, request, struct.pack("<16s24x", interface.encode()))[16:]
