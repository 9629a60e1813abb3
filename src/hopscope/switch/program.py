"""Loads the programs of a switch, attaches them to its interfaces, reads their counters, and removes them."""

from __future__ import annotations

import os
import socket
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import numpy as np

from ..bpf.build import SWITCH_OBJECT
from ..bpf.hash_map import HashMap
from ..bpf.kernel_types import has_function
from ..bpf.layout import MAX_PROCESSORS
from ..bpf.libbpf import BpfObject
from ..bpf.tc import Direction, file_system_problem, remove, run_at
from ..capture.errors import CaptureError
from ..capture.interface import ethernet_index_of, mtu_of
from ..capture.ring.offload import speed_of
from ..wire.records import Records
from .clock import epoch_ns
from .counters import Counters, counters_of
from .drops import LINK, REASONS, attach_drops, detach_drops
from .labels.layout import LabelCount
from .labels.maps import LabelMaps
from .labels.program import attach_labels, detach_labels
from .layout import CONTROL, COUNTERS, PORT, SENDER, SHARED, WATCHES, SwitchCount
from .segments import check_segments
from .settings import SwitchSettings
from .watches import write

_ETHERNET = 14
_CONTEXT, _INGRESS_AT, _INDEX_AT, _GSO_AT = 192, 36, 40, 176
"""Size of struct __sk_buff, and offsets of the interface indexes and the segment size in it, bytes."""


class SwitchProgram:
    """The programs in the kernel. `close` frees them, except those that `attach` has pinned."""

    def __init__(self, settings: SwitchSettings, *, pins: Path | None = None) -> None:
        """Load the programs. `pins`: folder of the maps that they share with earlier programs, and that
        outlive this process. Raises CaptureError.
        """
        self._object = BpfObject(SWITCH_OBJECT)
        if pins is not None:
            for name in SHARED:
                self._object.share(name, pins / name)
        knows_queues = has_function("bpf_cast_to_kern_ctx")
        self._object.constants()[:4] = int(knows_queues).to_bytes(4, sys.byteorder)
        self._object.load()
        self._object.memory("control", CONTROL.itemsize).view(CONTROL)[0] = control_of(settings)
        write(self._object.memory("watches", WATCHES.itemsize).view(WATCHES)[0], settings.watch)

    def allow(self, index: int, mtu: int, mbits: int = 0) -> None:
        """Let packets that leave through an interface grow up to its MTU; `mbits`: its speed in Mbit/s, for
        the utilisation, or 0. Raises CaptureError.
        """
        known = dict(HashMap(self._object.descriptor("ports"), 4, PORT.itemsize).items())
        before = known.get(index.to_bytes(4, sys.byteorder), bytes(PORT.itemsize))
        port = np.frombuffer(before, PORT).copy()  # its counters continue
        port["longest"], port["mbits"] = mtu + _ETHERNET, mbits
        self._object.put("ports", index, port.tobytes())

    def attach(self, program: str, direction: Direction, index: int, pin: Path) -> None:
        """Attach a program to an interface; it stays after this process has ended. Raises CaptureError."""
        run_at(self._object.program(program), index, direction, pin)

    def counters(self) -> Counters:
        """The programs' counters."""
        rows = self._object.memory("counters", MAX_PROCESSORS * COUNTERS.itemsize).view(COUNTERS)
        return counters_of(rows, self._sender)

    @property
    def _sender(self) -> np.void:
        """SENDER."""
        return self._object.memory("sender", SENDER.itemsize).view(SENDER)[0]

    def counts(self) -> dict[SwitchCount, int]:
        """Packets by outcome."""
        return self.counters().packets

    def report(self) -> int:
        """Let the programs make reports for two seconds; returns the descriptor of the ring of reports."""
        self._sender["alive_ns"] = time.monotonic_ns()
        return self._object.descriptor("reports")

    def leave(
        self, frame: bytes, *, ingress: int = 0, egress: int = 1, gso: int = 0, program: str = "egress"
    ) -> tuple[int, bytes]:
        """Run `egress` or `sink` on a frame as if it left; returns (verdict, resulting frame). Raises
        CaptureError.
        """
        context = bytearray(_CONTEXT)
        for at, value in ((_INGRESS_AT, ingress), (_INDEX_AT, egress), (_GSO_AT, gso)):
            context[at : at + 4] = value.to_bytes(4, "little")
        return self._object.changed(program, frame, room=256, context=bytes(context))

    def run(self, program: str, frame: bytes, repeat: int = 1) -> tuple[int, int]:
        """Run a program on a frame; returns (verdict, mean duration of `repeat` runs, ns). Raises
        CaptureError.
        """
        return self._object.run(program, frame, repeat)

    def close(self) -> None:
        """Free the programs, except pinned ones."""
        self._object.close()


def attach(settings: SwitchSettings) -> None:
    """Attach the programs to all interfaces, replacing those of an earlier call. If this fails, the earlier
    programs continue to run, with these settings or the earlier ones. Raises CaptureError.
    """
    indexes = {name: ethernet_index_of(name) for name in (*settings.interfaces, *settings.hosts)}
    check_segments(settings)
    mtus = {name: _mtu(name) for name in indexes}
    places = [("egress", Direction.EGRESS, name) for name in settings.interfaces]
    places += [("arrival", Direction.INGRESS, name) for name in settings.interfaces]
    places += [("sink", Direction.EGRESS, name) for name in settings.hosts]
    places += [("ingress", Direction.INGRESS, name) for name in settings.hosts]
    pins = settings.pins
    if problem := file_system_problem(pins):
        raise CaptureError(f"{pins}: {problem}")
    try:
        pins.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise CaptureError(f"{pins}: {error.strerror}") from error
    before, wanted = set(_links(pins)), set()
    try:
        with closing(SwitchProgram(settings, pins=pins)) as program:
            for name, index in indexes.items():
                asked = "egress_utilization" in settings.instructions
                program.allow(index, mtus[name], speed_of(name) if asked else 0)
            for role, direction, name in places:
                # names of interfaces may have dots, which names in a BPF file system may not
                pin = pins / f"{direction.label}-{indexes[name]}"
                wanted.add(pin)
                try:
                    program.attach(role, direction, indexes[name], pin)
                except CaptureError as error:
                    raise CaptureError(f"{name}: {error}") from error
        if settings.label is not None:
            wanted |= attach_labels(settings, epoch_ns(), indexes, mtus)
        if settings.drops:
            attach_drops(settings)
        else:
            detach_drops(pins)
    except CaptureError:
        for pin in set(_links(pins)) - before:
            remove(pin)
        if not before:
            detach(settings)
        raise
    for pin in before - wanted:
        remove(pin)
    if settings.label is None:
        detach_labels(pins)


def detach(settings: SwitchSettings) -> bool:
    """Remove programs, counters and their folder; returns whether they existed. Raises CaptureError."""
    if not settings.pins.is_dir():
        return False
    for pin in _links(settings.pins):
        remove(pin)
    for name in (LINK, REASONS, *SHARED):
        (settings.pins / name).unlink(missing_ok=True)
    detach_labels(settings.pins)
    try:
        settings.pins.rmdir()
    except OSError as error:
        raise CaptureError(f"{settings.pins}: {error.strerror}") from error
    return True


def label_counts(settings: SwitchSettings) -> dict[LabelCount, int]:
    """Packets by outcome of INT-label since `attach`; empty without INT-label. Raises CaptureError."""
    if settings.label is None:
        return {}
    with closing(LabelMaps.pinned(settings.pins)) as maps:
        return maps.counts()


def attached(settings: SwitchSettings) -> list[str]:
    """Existing interfaces at which the programs run."""
    found = []
    for pin in settings.pins.glob(f"{Direction.EGRESS.label}-*"):
        with suppress(OSError):
            found.append(socket.if_indextoname(int(pin.name.rpartition("-")[2])))
    return sorted(found)


def control_of(settings: SwitchSettings) -> Records:
    """Settings in the programs' form, CONTROL [1]."""
    control = np.zeros(1, CONTROL)
    row = control[0]
    row["processors"] = os.sysconf("SC_NPROCESSORS_CONF")
    row["node_id"], row["hop_limit"] = settings.node_id, settings.hop_limit
    row["instructions"], row["dscp"], row["port"] = settings.bitmap, settings.dscp, settings.port or 0
    row["epoch_ns"] = epoch_ns() % 2**64
    return control


def _links(pins: Path) -> list[Path]:
    return [path for direction in Direction for path in pins.glob(f"*{direction.label}-*")]


def _mtu(interface: str) -> int:
    try:
        return mtu_of(interface)
    except OSError as error:
        raise CaptureError(f"{interface}: {error.strerror}") from error
