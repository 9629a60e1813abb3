"""Loads and attaches the XDP program of a listener, and reads its counters."""

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
from .build import REPORTS_OBJECT
from .layout import CONSTANTS, CONTROL, COUNTERS, MAX_PROCESSORS, Count, near_flows
from .libbpf import BpfObject

_NAME = "reports"
_STORE_IN_ORDER = ("x86_64", "i686")
"""Machines whose CPUs make stores visible in order."""


class Tables(Protocol):
    """Interface of a program that a filter needs."""

    control: np.void
    """CONTROL, which may be changed while the program runs."""

    def table(self, name: str, rows: int, dtype: np.dtype[Any]) -> Records:
        """One of its tables, shared with it."""

    def wait(self) -> None:
        """Wait until every CPU that uses the tables now has finished: later ones see earlier writes."""

    def filtered(self) -> dict[str, int]:
        """What it filtered: datagrams, their bytes, reports, hops and values."""


class Unattached:
    """Tables without a program, to load the kernels that follow them."""

    def __init__(self) -> None:
        self.control: np.void = np.zeros(1, CONTROL)[0]

    def table(self, name: str, rows: int, dtype: np.dtype[Any]) -> Records:
        """An empty table."""
        return np.zeros(rows, dtype)

    def wait(self) -> None:
        """Does nothing: no program runs."""

    def filtered(self) -> dict[str, int]:
        """Zeros: nothing was filtered."""
        return dict.fromkeys(("datagrams", "bytes", "reports", "hops", "values"), 0)


class XdpProgram:
    """Takes datagrams to the port of reports from an interface, and puts them into a ring.

    The program is removed by `close`, or when this process ends, even if it is killed.
    """

    def __init__(self, settings: ListenSettings, detect: DetectSettings | None = None) -> None:
        """Load the program. `detect`: settings of the detector for which it filters; its tables have the same
        sizes as the detector's. None: it does not filter. Raises CaptureError.
        """
        self.ring_bytes = 1 << (settings.ring_bytes - 1).bit_length()
        """Size of the ring: `listen.ring_bytes`, or the next power of two."""
        self._settings = settings
        self.index = 0
        """Number of the interface to which it is attached; 0: none."""
        named = url(settings)
        index_of(settings.interface, named)
        try:
            self._object = BpfObject(REPORTS_OBJECT)
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
                constants["queues_by_port"] = detect.queue_by_port
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
        """CONTROL, which may be changed while the program runs."""
        self._counters = memory[CONTROL.itemsize :].view(COUNTERS)

    def attach(self) -> bool:
        """Attach the program; returns True if the driver runs it (native), False if the network stack does
        (generic). Raises CaptureError.
        """
        self.index = index_of(self._settings.interface, url(self._settings))
        self.look()
        try:
            return self._object.attach(_NAME, self.index)
        except CaptureError as error:
            raise CaptureError(f"{url(self._settings)}: {error}") from error

    def look(self) -> None:
        """Update the interface's address in CONTROL. Raises OSError."""
        self.control["address"] = int.from_bytes(address_of(self._settings.interface), "little")

    def detach(self) -> None:
        """Detach the program; datagrams that it has passed up stay in the ring."""
        self._object.detach()
        self.index = 0

    def counts(self) -> dict[Count, int]:
        """Datagrams by outcome."""
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
        """Wait until every CPU that uses the tables now has finished: later ones see earlier writes."""
        before = int(self.control["lock"])
        while before & 1 and int(self.control["lock"]) == before:
            pass

    def run(self, frame: bytes, repeat: int = 1) -> tuple[int, int]:
        """Run it on a frame as if an interface had received it; (verdict, mean duration of `repeat` runs,
        ns).
        """
        return self._object.run(_NAME, frame, repeat)

    def close(self) -> None:
        """Detach and free the program; `counts` stays available."""
        self._counters = self._counters.copy()
        self._object.close()
