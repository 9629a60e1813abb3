"""Claims an interface for one sink: if two sinks forwarded its frames, each would send every frame.

The claim is a listening Unix socket with an abstract name (unix(7)). Like interfaces, such names belong to a
network namespace, whatever files a process sees, and they vanish with the process. Any user can take a name,
so only claims by root and by this user count.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import sys
from contextlib import suppress

from .errors import CaptureError
from .interface import ethernet_index_of
from .netlink import attributes

_SOCK_DIAG, _BY_FAMILY, _DUMP, _DONE = 4, 20, 0x301, (2, 3)  # linux/sock_diag.h; NLMSG_ERROR, NLMSG_DONE
_SHOW_NAME_AND_USER, _NAME, _USER = 0x41, 0, 7  # linux/unix_diag.h
_HEADER = 16  # bytes of struct nlmsghdr, and of struct unix_diag_msg


def claim(interface: str, output: str) -> socket.socket:
    """Claim the forwarding from an interface to another until the returned socket is closed. Raises
    CaptureError if another process has claimed it, or if they are not two Ethernet interfaces.
    """
    to, index = ethernet_index_of(output), ethernet_index_of(interface)
    if index == to:
        raise CaptureError(f"{interface} and {output}: found names of one interface, expected two interfaces")
    name = f"\0hopscope-forwards-{socket.if_indextoname(index)}"
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.bind(name)
        made.listen(1)
    except OSError as error:
        if error.errno == errno.EADDRINUSE and _user(name) not in (None, 0, os.geteuid()):
            return made  # no sink has this name
        made.close()
        if error.errno != errno.EADDRINUSE:
            raise CaptureError(f"{interface}: {error.strerror}") from error
        raise CaptureError(
            f"{interface}: another sink{_process(name)} forwards its frames, and each would come out twice: "
            "end that one, or take over from it (--take-over with its --data)"
        ) from error
    return made


def _process(name: str) -> str:
    """The process that has the claim, such as ` (process 123)`; empty: unknown here."""
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.setblocking(False)
        asking.connect(name)
        process = struct.unpack("3i", asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        return f" (process {process})" if process else ""
    return ""


def _user(name: str) -> int | None:
    """User id of the socket with a name (sock_diag(7)); None: unknown."""
    wanted = struct.pack("=BBHIIIII", socket.AF_UNIX, 0, 0, 2**32 - 1, 0, _SHOW_NAME_AND_USER, 0, 0)
    with suppress(OSError), socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as asking:
        asking.send(struct.pack("=IHHII", _HEADER + len(wanted), _BY_FAMILY, _DUMP, 0, 0) + wanted)
        while True:
            answer = asking.recv(1 << 16)
            while answer:
                length, kind = struct.unpack_from("=IH", answer)
                if kind in _DONE:
                    return None
                found = attributes(answer[2 * _HEADER : length])
                if found.get(_NAME) == name.encode() and _USER in found:
                    return int.from_bytes(found[_USER], sys.byteorder)
                answer = answer[-(-length // 4) * 4 :]
    return None
