"""Offloads of an interface: reads them, and temporarily switches off those that would change captured frames.

A card or the kernel may merge packets of a connection before a packet socket gets them (LRO, GRO), which
removes the headers of all but the first, including INT. Frames from the other end of a veth pair may be
longer than the MTU, since the sender leaves segmentation to a card that does not exist (TSO). Offloaded
checksums can stay on: the ring completes them.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import socket
import struct
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from ..errors import CaptureError
from ..interface import index_of
from ..netlink import attributes
from ..sockets import require_linux

_SIOCETHTOOL = 0x8946
_SET_INFO, _STRINGS, _GET, _SET = 0x37, 0x1B, 0x3A, 0x3B  # ETHTOOL_GSSET_INFO, GSTRINGS, G- and SFEATURES
_DRIVER_INFO = 0x3  # ETHTOOL_GDRVINFO
_LINK_SETTINGS = 0x1  # ETHTOOL_GSET
_SPEED_UNKNOWN = 0xFFFFFFFF
_FEATURE_NAMES = 4  # ETH_SS_FEATURES
_STRING_BYTES = 32

MERGING = ("rx-lro", "rx-gro-hw", "rx-gro", "rx-gro-list", "rx-udp-gro-forwarding")
"""Features that merge several received frames into one."""
_GENERIC = "tx-generic-segmentation"
"""Segmentation by the kernel just before sending, in place of the card's."""
_GETLINK, _NEWLINK, _REQUEST = 18, 16, 1
_LINK, _LINKINFO, _INFO_KIND, _LINK_NETNSID = 5, 18, 1, 37  # IFLA_*
_LOOPBACK = 772  # ARPHRD_LOOPBACK


@dataclass(frozen=True, slots=True)
class Feature:
    """State of one feature of an interface."""

    active: bool
    changeable: bool


class _Device:
    """The ethtool ioctls of one interface (linux/ethtool.h)."""

    def __init__(self, interface: str) -> None:
        self.interface = interface
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def call(self, request: bytes, answer: int = 0) -> bytes:
        """Run one command; returns its answer, `answer` bytes longer than the request. Raises OSError."""
        buffer = ctypes.create_string_buffer(request, len(request) + answer)
        request = struct.pack("<16sQ16x", self.interface.encode(), ctypes.addressof(buffer))
        fcntl.ioctl(self._socket, _SIOCETHTOOL, request)
        return buffer.raw

    def names(self) -> list[str]:
        """Names of all features, in the order of their bits."""
        info = self.call(struct.pack("<IIQ", _SET_INFO, 0, 1 << _FEATURE_NAMES), 4)
        count = struct.unpack_from("<I", info, 16)[0]
        strings = self.call(struct.pack("<III", _STRINGS, _FEATURE_NAMES, count), count * _STRING_BYTES)
        each = (strings[12 + i * _STRING_BYTES :][:_STRING_BYTES] for i in range(count))
        return [name.split(b"\0")[0].decode() for name in each]

    def features(self) -> dict[str, Feature]:
        """All features by name."""
        names = self.names()
        blocks = (len(names) + 31) // 32
        answer = self.call(struct.pack("<II", _GET, blocks), 16 * blocks)
        words = [struct.unpack_from("<4I", answer, 8 + 16 * i) for i in range(blocks)]
        found = {}
        for bit, name in enumerate(names):
            available, _, active, never = (word >> (bit % 32) & 1 for word in words[bit // 32])
            found[name] = Feature(bool(active), bool(available and not never))
        return found

    def switch(self, states: dict[str, bool]) -> None:
        """Switch features on or off. Raises OSError."""
        names = self.names()
        words = [[0, 0] for _ in range((len(names) + 31) // 32)]
        for bit, name in enumerate(names):
            if name in states:
                words[bit // 32][0] |= 1 << bit % 32
                words[bit // 32][1] |= states[name] << bit % 32
        self.call(struct.pack("<II", _SET, len(words)) + b"".join(struct.pack("<II", *two) for two in words))

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def features(interface: str) -> dict[str, Feature]:
    """Features of an interface by the kernel's names. Raises CaptureError."""
    require_linux()
    device = _Device(interface)
    try:
        return device.features()
    except OSError as error:
        raise _failure(interface, error) from error
    finally:
        device.close()


def driver_of(interface: str) -> str:
    """Name of an interface's driver; empty: unknown. Raises CaptureError if there is no such interface."""
    require_linux()
    device = _Device(interface)
    try:
        return device.call(struct.pack("<I192x", _DRIVER_INFO))[4:36].split(b"\0")[0].decode()
    except OSError as error:
        if error.errno == errno.ENODEV:
            raise _failure(interface, error) from error
        return ""
    finally:
        device.close()


def speed_of(interface: str) -> int:
    """Speed of an interface's link, Mbit/s; 0: unknown. It is read from the kernel, not from /sys, which may
    belong to another network namespace. Raises CaptureError if there is no such interface.
    """
    require_linux()
    device = _Device(interface)
    try:
        settings = device.call(struct.pack("<I40x", _LINK_SETTINGS))
    except OSError as error:
        if error.errno == errno.ENODEV:
            raise _failure(interface, error) from error
        return 0
    finally:
        device.close()
    low, high = struct.unpack_from("<H14xH", settings, 12)
    return 0 if high << 16 | low == _SPEED_UNKNOWN else high << 16 | low


def kind_of(interface: str) -> str:
    """Kind of an interface: `veth`, `loopback`, …; empty for a card. Raises CaptureError."""
    return _link(interface)[0]


def _failure(interface: str, error: OSError) -> CaptureError:
    if error.errno == errno.ENODEV:
        return CaptureError(f"{interface}: this machine has no such interface")
    return CaptureError(f"{interface}: its offloads cannot be read ({error.strerror})")


@dataclass
class PreparedInterface:
    """Features that were switched off, which `close` restores."""

    lines: list[str] = field(default_factory=list)
    """Lines about what was done, and what failed."""
    _changed: list[tuple[_Device, dict[str, bool]]] = field(default_factory=list)

    def off(self, interface: str, which: Callable[[str], bool], change: bool, called: str, why: str) -> None:
        """Switch off the features that are on. `which`: their names; `called`: their common name;
        `why`: what they do.
        """
        try:
            found = features(interface)
        except CaptureError as error:
            self.lines.append(str(error))
            return
        on = {name: True for name, feature in found.items() if feature.active and which(name)}
        if not on:
            return
        if not change:
            result = f"left on; {why}"
        elif problem := self._switch(interface, on):
            result = f"not switched off ({problem}); {why}"
        else:
            result = f"switched off until the end: {why}"
        self.lines.append(f"{interface}: {called} {result}")

    def _switch(self, interface: str, on: dict[str, bool]) -> str:
        """Switch off and verify; returns the problem, empty if there is none."""
        device = _Device(interface)
        try:
            device.switch(dict.fromkeys(on, False))
            now = device.features()
        except OSError as error:
            device.close()
            return (error.strerror or str(error)).lower()
        self._changed.append((device, on))
        fixed = [name for name in on if now[name].active]
        return f"{', '.join(fixed)} cannot be changed" if fixed else ""

    @property
    def changes(self) -> list[tuple[str, dict[str, bool]]]:
        """The changes: interfaces, and the former states of their features."""
        return [(device.interface, before) for device, before in self._changed]

    def take(self, changes: Iterable[tuple[str, dict[str, bool]]]) -> None:
        """Also restore these `changes` of another process, which leaves that to this one."""
        self._changed += [(_Device(interface), before) for interface, before in changes]

    def leave(self) -> None:
        """Leave the restoration to another process."""
        for device, _ in self._changed:
            device.close()
        self._changed.clear()

    def close(self) -> None:
        """Restore the features, unless the interface is gone."""
        for device, before in self._changed:
            with suppress(OSError):
                device.switch(before)
            device.close()
        self._changed.clear()


def prepare(interface: str, change: bool = True) -> PreparedInterface:
    """Switch off the features that merge frames received at an interface, and segmentation offloads of its
    veth peer.

    Without `change` or the permission (CAP_NET_ADMIN) it only reports. Closing the result restores
    everything. Raises CaptureError if there is no such interface.
    """
    prepared = PreparedInterface()
    kind, peer = _link(interface)
    if kind == "loopback":  # its frames are neither merged nor longer than its MTU
        return prepared
    prepared.off(interface, MERGING.__contains__, change, "GRO and LRO", "they merge packets of a connection")
    if kind == "veth" and peer is None:
        prepared.lines.append(
            f"{interface}: its other end is in another namespace; frames longer than the MTU come unless its"
            " segmentation offloads are off there: ethtool -K NAME tso off"
        )
    elif peer is not None:
        prepared.off(peer, _cuts, change, "segmentation offload", "it leaves frames longer than the MTU")
    return prepared


def disable_send_offloads(interface: str) -> None:
    """Permanently make an end of a veth pair send complete frames: cut to the MTU, with checksums, none
    merged.

    Raises CaptureError.
    """
    found = features(interface)
    device = _Device(interface)
    try:
        device.switch(
            {
                name: False
                for name, feature in found.items()
                if feature.active
                and feature.changeable
                and (name in MERGING or _cuts(name) or name.startswith("tx-checksum"))
            }
        )
    except OSError as error:
        raise CaptureError(f"{interface}: its offloads cannot be switched off ({error.strerror})") from error
    finally:
        device.close()


def _cuts(name: str) -> bool:
    """Whether this feature leaves segmentation to a card."""
    return name.startswith("tx-") and name != _GENERIC and name.endswith(("-segmentation", "-gso-list"))


def _link(interface: str) -> tuple[str, str | None]:
    """Kind of an interface (`veth`, `loopback`, …; empty for a card), and for a veth, the name of its other
    end, None if that is in another namespace (rtnetlink(7)). Raises CaptureError.
    """
    request = struct.pack("<BxHiII", 0, 0, index_of(interface), 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as handle:
        handle.send(struct.pack("<IHHII", 16 + len(request), _GETLINK, _REQUEST, 1, 0) + request)
        answer = handle.recv(1 << 16)
    if len(answer) < 32 or struct.unpack_from("<H", answer, 4)[0] != _NEWLINK:
        raise CaptureError(f"{interface}: the kernel does not report its type")
    if struct.unpack_from("<H", answer, 18)[0] == _LOOPBACK:
        return "loopback", None
    found = attributes(answer[32:])
    kind = attributes(found.get(_LINKINFO, b"")).get(_INFO_KIND, b"").rstrip(b"\0").decode()
    if kind != "veth" or _LINK_NETNSID in found:
        return kind, None
    return kind, socket.if_indextoname(struct.unpack("<I", found[_LINK])[0])
