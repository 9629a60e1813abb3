"""Loads the programs of INT-label, attaches them to the ports of a switch, and removes them."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path

from ...bpf.build import LABEL_OBJECT
from ...bpf.libbpf import BpfObject
from ...bpf.tc import Direction, run_at
from ...capture.errors import CaptureError
from ...capture.ring.offload import features
from ..settings import SwitchSettings
from .layout import INPUTS, MAX_INDEX, LabelRole
from .maps import MAPS, LabelMaps

_ETHERNET, _MAX_IP = 14, 65535


class LabelProgram:
    """The programs in the kernel. `close` frees them, except those that `attach` has pinned."""

    def __init__(
        self, settings: SwitchSettings, epoch_ns: int, *, pins: Path | None = None, given: bool = False
    ) -> None:
        """Load the programs. `pins`: folder of the maps that outlive this process; `epoch_ns`: offset from
        CLOCK_TAI to the time since 1970; `given`: for tests, clock and random numbers are taken from
        `inputs`. Raises CaptureError.
        """
        assert settings.label is not None
        self._object = BpfObject(LABEL_OBJECT)
        if pins is not None:
            for name in MAPS:
                self._object.share(name, pins / name)
        ctypes.c_uint32.from_buffer(self._object.constants()).value = given
        self._object.load()
        try:
            self.maps = LabelMaps(self._object.descriptor)
            self.maps.set_switch(settings.node_id, epoch_ns, settings.label.own)
            self.maps.set_labelling(settings.label)
            self.maps.replace_tracked(settings.label.track)
        except CaptureError:
            self._object.close()
            raise
        self.inputs = self._object.memory("inputs", INPUTS.itemsize).view(INPUTS)[0]
        """Record of INPUTS."""

    def place(self, index: int, role: LabelRole, mtu: int, *, partial: bool = True) -> None:
        """Make an interface a port. `partial`: it completes checksums of protocols unknown to it. Raises
        CaptureError.
        """
        if index >= MAX_INDEX:
            raise CaptureError(
                f"the interface has number {index}, but a label has room only for numbers below {MAX_INDEX}; "
                "in a new network namespace, numbers start at 1"
            )
        longest = min(mtu, _MAX_IP) + _ETHERNET
        self._object.put("label_rows", index, self.maps.place(index, role, longest, partial))

    def attach(self, direction: Direction, index: int, pin: Path) -> None:
        """Attach a program to an interface; it stays attached after this process has ended. It runs before
        the programs of INT, which cannot parse packets with labels. Raises CaptureError.
        """
        run_at(self._object.program(f"label_{direction.label}"), index, direction, pin, first=True)

    def changed(self, direction: Direction, frame: bytes, context: bytes) -> tuple[int, bytes]:
        """Run a program on a frame with a struct __sk_buff; returns (verdict, resulting frame). Raises
        CaptureError.
        """
        return self._object.changed(f"label_{direction.label}", frame, room=256, context=context)

    def run(self, direction: Direction, frame: bytes, context: bytes, repeat: int) -> float:
        """Mean duration of `repeat` runs on a frame, ns. Raises CaptureError."""
        return self._object.run(f"label_{direction.label}", frame, repeat, context)[1]

    def close(self) -> None:
        """Free the programs, except pinned ones."""
        self._object.close()


def attach_labels(
    settings: SwitchSettings, epoch_ns: int, indexes: Mapping[str, int], mtus: Mapping[str, int]
) -> set[Path]:
    """Attach the programs to all interfaces, replacing those of an earlier call; returns their pins. Raises
    CaptureError.
    """
    pins, wanted = settings.pins, set()
    program = LabelProgram(settings, epoch_ns, pins=pins)
    try:
        program.maps.keep(indexes.values())
        for name, index in indexes.items():
            role = LabelRole.HOST if name in settings.hosts else LabelRole.INNER
            program.place(index, role, mtus[name], partial=completes_any(name))
        for name, index in indexes.items():
            for direction in Direction:
                pin = label_pin(pins, direction, index)
                wanted.add(pin)
                try:
                    program.attach(direction, index, pin)
                except CaptureError as error:
                    raise CaptureError(f"{name}: {error}") from error
    finally:
        program.close()
    return wanted


def detach_labels(pins: Path) -> None:
    """Remove the maps; the caller must have removed the links."""
    for name in MAPS:
        (pins / name).unlink(missing_ok=True)


def label_pin(pins: Path, direction: Direction, index: int) -> Path:
    """Pin of the program at an interface."""
    return pins / f"label-{direction.label}-{index}"


def completes_any(interface: str) -> bool:
    """Whether an interface completes checksums correctly for any protocol in the IP header. A card that knows
    only TCP and UDP might not look past labels. Raises CaptureError.
    """
    found = features(interface)
    generic = found.get("tx-checksum-ip-generic")
    knows = ("tx-checksum-ipv4", "tx-checksum-ipv6")
    return bool(generic and generic.active) or not any(name in found and found[name].active for name in knows)
