"""The one sink that forwards what comes in at an interface: of two, each would send every frame on.

The claim is a listening Unix socket with an abstract name (unix(7)). Such names belong to a network
namespace, as interfaces do, whatever files a process sees, and go with the process.
"""

from __future__ import annotations

import errno
import socket
import struct
from contextlib import suppress

from .errors import CaptureError
from .interface import ethernet_index_of


def claim(interface: str, output: str) -> socket.socket:
    """Forward the frames of an interface to another one, alone, until this is closed. Raises CaptureError if
    another process does, or if they are not two Ethernet interfaces.
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
        made.close()
        if error.errno != errno.EADDRINUSE:
            raise CaptureError(f"{interface}: {error.strerror}") from error
        raise CaptureError(
            f"{interface}: another sink{_owner(name)} forwards its frames, and each would come out twice: "
            "end that one, or take over from it (--take-over with its --data)"
        ) from error
    return made


def _owner(name: str) -> str:
    """` (process 123)` of who listens; empty: it is not known here."""
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.setblocking(False)
        asking.connect(name)
        process = struct.unpack("3i", asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        return f" (process {process})" if process else ""
    return ""
