"""The XDP program of a listener: loaded, attached, its counters."""

from __future__ import annotations

import platform
from typing import Any, Protocol

import numpy as np

from ..capture.errors import CaptureError
from ..capture.interface import address_of, index_of
from ..detect.records import POOL_HOPS, WAYS
from ..settings.detect import DetectSettings
from ..settings.listen import ListenSettings
from ..settings.source import url
from ..wire.records import Records
from .build import OBJECT, SOURCES
from .layout import CONSTANTS, CONTROL, COUNTERS, MAX_PROCESSORS, Count, near_flows
from .libbpf import BpfObject

_NAME = "reports"
_STORE_IN_ORDER = ("x86_64", "i686")
"""Machines whose processors do."""


class Tables(Protocol):
    """What a filter needs of a program."""

    control: np.void
    """CONTROL, to be changed while it runs."""

    def table(self, name: str, rows: int, dtype: np.dtype[Any]) -> Records:
        """One of its tables, shared with it."""

    def wait(self) -> None:
        """Wait until each processor that is in the tables now has left them: those that come see what was
        written before.
        """

    def filtered(self) -> dict[str, int]:
        """What it filtered: datagrams, their bytes, reports, hops and values."""


class Unattached:
    """Tables without a program, to load the kernels that follow them."""

    def __init__(self) -> None:
        self.control: np.void = np.zeros(1, CONTROL)[0]

    def table(self, name: str, rows: int, dtype: np.dtype[Any]) -> Records:
        """An empty one."""
        return np.zeros(rows, dtype)

    def wait(self) -> None:
        """Nothing runs."""

    def filtered(self) -> dict[str, int]:
        """Nothing was."""
        return dict.fromkeys(("datagrams", "bytes", "reports", "hops", "values"), 0)


class XdpProgram:
    """Takes the datagrams to the port of reports off an interface, and puts them into a ring.

    It is there until `close`, or until this process ends, however it ends.
    """

    def __init__(self, settings: ListenSettings, detect: DetectSettings | None = None) -> None:
        """Load it, with tables of the sizes of the detector's that has these settings, if it is to filter.
        Raises CaptureError.
        """
        self.ring_bytes = 1 << (settings.ring_bytes - 1).bit_length()
        """Size of the ring: `listen.ring_bytes`, or the next power of two."""
        self._settings = settings
        self.index = 0
        """Number of the interface that it is attached to; 0: none."""
        named = url(settings)
        index_of(settings.interface, named)
        try:
            self._object = BpfObject(SOURCES / OBJECT)
            constants = np.frombuffer(self._object.constants(), CONSTANTS, 1)[0]
            constants["report_port"] = settings.port
            constants["promiscuous"] = settings.promiscuous
            constants["stores_in_order"] = platform.machine() in _STORE_IN_ORDER
            self._object.resize("ring", self.ring_bytes)
            if detect is not None:
                sizes = {"tags": detect.flow_rows, "flows": detect.flow_rows * WAYS}
                sizes |= {"ports": detect.ports, "sources": detect.sources}
                sizes["more_hops"] = max(1, detect.hop_pool * POOL_HOPS)
                sizes["near_flows"] = near_flows(detect.flow_rows)
                constants["queues_by_port"] = detect.queue_key == "switch-port-queue"
                for name, entries in sizes.items():
                    self._object.resize(name, entries)
            self._object.load()
        except CaptureError as error:
            raise CaptureError(f"{named}: {error}") from error
        self.descriptor = self._object.program(_NAME)
        """Descriptor of the program."""
        self.ring = self._object.descriptor("ring")
        """Descriptor of the ring."""
        memory = self._object.memory(".bss", CONTROL.itemsize + MAX_PROCESSORS * COUNTERS.itemsize)
        self.control = memory[: CONTROL.itemsize].view(CONTROL)[0]
        """CONTROL, to be changed while it runs."""
        self._counters = memory[CONTROL.itemsize :].view(COUNTERS)

    def attach(self) -> bool:
        """Run it from now on; returns whether the driver does (native), and not the network stack (generic).
        Raises CaptureError.
        """
        self.index = index_of(self._settings.interface, url(self._settings))
        self.look()
        try:
            return self._object.attach(_NAME, self.index)
        except CaptureError as error:
            raise CaptureError(f"{url(self._settings)}: {error}") from error

    def look(self) -> None:
        """Take the interface's own address to be what it is now. Raises OSError."""
        self.control["address"] = int.from_bytes(address_of(self._settings.interface), "little")

    def detach(self) -> None:
        """Run it no longer; what it sent up stays in the ring."""
        self._object.detach()
        self.index = 0

    def counts(self) -> dict[Count, int]:
        """Datagrams by what became of them."""
        totals = self._counters["datagrams"].sum(axis=0)
        return {count: int(totals[count]) for count in Count}

    def filtered(self) -> dict[str, int]:
        """What it filtered: datagrams, their bytes, reports, hops and values."""
        names = ("bytes", "reports", "hops", "values")
        return {
            "datagrams": self.counts()[Count.FILTERED],
            **{name: int(self._counters[name].sum()) for name in names},
        }

    def table(self, name: str, rows: int, dtype: np.dtype[Any]) -> Records:
        """One of its tables, shared with it."""
        return self._object.memory(name, rows * dtype.itemsize).view(dtype)

    def wait(self) -> None:
        """Wait until each processor that is in the tables now has left them: those that come see what was
        written before.
        """
        before = int(self.control["lock"])
        while before & 1 and int(self.control["lock"]) == before:
            pass

    def run(self, frame: bytes, repeat: int = 1) -> tuple[int, int]:
        """Give it a frame, as if an interface had received it: (its verdict, mean ns of `repeat` runs)."""
        return self._object.run(_NAME, frame, repeat)

    def close(self) -> None:
        """Detach and free it; `counts` stays."""
        self._counters = self._counters.copy()
        self._object.close()
