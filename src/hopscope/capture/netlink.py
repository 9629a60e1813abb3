"""Netlink messages (netlink(7)), and changes of interfaces (rtnetlink(7))."""

from __future__ import annotations

import socket
import struct

_LINK_GROUP = 1  # RTMGRP_LINK


def follow_links() -> socket.socket:
    """A socket that is readable when any interface of this network namespace has changed."""
    links = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.NETLINK_ROUTE)
    links.bind((0, _LINK_GROUP))
    return links


def have_changed(links: socket.socket) -> bool:
    """Whether an interface has changed since the last call; `links`: socket of `follow_links`."""
    changed = False
    try:
        while links.recv(1 << 16):
            changed = True
    except BlockingIOError:
        return changed
    except OSError:  # its buffer was full
        return True
    return changed


def attributes(octets: bytes) -> dict[int, bytes]:
    """Attributes of a netlink message, by type."""
    found: dict[int, bytes] = {}
    while len(octets) >= 4:
        length, kind = struct.unpack_from("<HH", octets)
        if not 4 <= length <= len(octets):
            break
        found[kind & 0x3FFF] = octets[4:length]
        octets = octets[(length + 3) & ~3 :]
    return found
