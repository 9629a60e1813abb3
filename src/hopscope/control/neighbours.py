"""Ports of a switch, and the neighbour at each by LLDP."""

from __future__ import annotations

import fcntl
import socket
import struct
from collections.abc import Iterable
from contextlib import suppress
from typing import Annotated

from pydantic import AfterValidator, Field

from ..base.names import clean_name
from ..capture.errors import CaptureError
from ..capture.lldp import LldpListener
from ..settings.section import Section

MAX_TEXT = 600
Text = Annotated[
    str,
    Field(max_length=MAX_TEXT),
    AfterValidator(lambda text: clean_name(text.encode("utf-8", "replace"), MAX_TEXT)),
]
"""Text from a switch or its neighbour. Terminals show it, so only printable characters remain."""
_SIOCGIFHWADDR = 0x8927  # netdevice(7)


class SwitchPort(Section):
    """A port of a switch, and its neighbour if that is known."""

    number: Annotated[int, Field(ge=0, lt=1 << 32)]
    """Number of the interface, as in reports and labels."""
    name: Text
    """Name of the interface."""
    mac: Text = ""
    """MAC address of the interface."""
    chassis: Text = ""
    """The neighbour's chassis id; empty: no neighbour was heard."""
    port: Text = ""
    """The neighbour's port id."""
    system: Text = ""
    """The neighbour's name."""


class SwitchPorts(Section):
    """Name of a switch, and its ports."""

    system: Text = ""
    """The switch's own name, as it announces it to its neighbours."""
    ports: Annotated[tuple[SwitchPort, ...], Field(max_length=4096)] = ()


class LocalPorts:
    """Listens for LLDP at interfaces of this machine; without the permission to do so, it finds no
    neighbours.
    """

    def __init__(self) -> None:
        self._listener: LldpListener | None = None
        self._failed = False

    def read(self, interfaces: Iterable[int]) -> SwitchPorts:
        """The interfaces with these numbers, with the neighbours heard since the first call."""
        numbers = sorted(interfaces)
        heard = {}
        if self._listener is None and not self._failed:
            try:
                self._listener = LldpListener()
            except CaptureError:
                self._failed = True
        if self._listener is not None:
            self._listener.follow(numbers)
            heard = self._listener.neighbours()
        ports = []
        for number in numbers:
            with suppress(OSError):
                name = socket.if_indextoname(number)
                found = heard.get(number)
                neighbour = {} if found is None else {
                    "chassis": found.chassis, "port": found.port, "system": found.system
                }  # fmt: skip
                ports.append(SwitchPort(number=number, name=name, mac=_mac(name), **neighbour))
        return SwitchPorts(system=socket.gethostname(), ports=tuple(ports))

    def close(self) -> None:
        """Stop listening."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None


def _mac(interface: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        answer = fcntl.ioctl(asked, _SIOCGIFHWADDR, struct.pack("16s24x", interface.encode()))
    return answer[18:24].hex(":")
