"""Registers, tracked flows and label function of the switch on this machine, in maps that its programs and
Python share, and that outlive both.

    with closing(LabelMaps.pinned(Path("/sys/fs/bpf/hopscope-switch"))) as maps:
        maps.replace_tracked([TrackedFlowSettings(src="192.0.2.1", dst="192.0.2.9", every=100)])
        maps.set_shift(3, 2)  # Reg2 of interface 3: it labels every T / 4

Changes take effect with the next packet.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from ...bpf.hash_map import HashMap
from ...bpf.layout import MAX_PROCESSORS
from ...bpf.map_shape import mapped
from ...bpf.tc import pinned
from ...capture.errors import CaptureError
from ...settings.label import LabellingSettings, TrackedFlowSettings
from ...wire.records import Records
from .function import Words, labelling_of, thresholds
from .layout import (
    COUNTERS,
    FLOW_KEY,
    FLOW_VALUE,
    LABEL_CONTROL,
    LABEL_PORT,
    MAX_CHANCES,
    MAX_PORTS,
    LabelCount,
    LabelRole,
)  # fmt: skip

MAPS = (
    "label_control", "label_ports", "label_chances", "label_flows", "label_counters", "label_ring",
)  # fmt: skip
"""Names of the maps that outlive the programs, and of their pins."""
MAX_SHIFT = 40
"""Highest S."""
EVERY = 255
"""Value in place of S: the port labels every packet, as in the one-bit form of INT-label, section 5."""
MAX_INTERVAL_NS = 1 << 52
"""Longest T, 52 days: products with it fit 64 bits."""


class LabelMaps:
    """The maps of a switch, accessed through their descriptors. There must be only one writer at a time."""

    def __init__(self, descriptor: Callable[[str], int]) -> None:
        """`descriptor` gives the descriptor of a map by its name. Raises CaptureError."""
        self._descriptors = {name: descriptor(name) for name in MAPS}
        self.ring = self._descriptors["label_ring"]
        """Descriptor of the ring of labels, whose size is RING_BYTES."""
        self._control = self._mapped("label_control", LABEL_CONTROL, 1)[0]
        self._ports = self._mapped("label_ports", LABEL_PORT, MAX_PORTS)
        self._chances: Words = self._mapped("label_chances", np.dtype("<u8"), 2 * MAX_CHANCES)
        self._counters = self._mapped("label_counters", COUNTERS, MAX_PROCESSORS)
        self._flows = HashMap(self._descriptors["label_flows"], FLOW_KEY.itemsize, FLOW_VALUE.itemsize)

    @classmethod
    def pinned(cls, pins: Path) -> LabelMaps:
        """The maps of `hopscope switch attach`, in `switch.pins`. Raises CaptureError if there are none."""
        opened: list[int] = []

        def descriptor(name: str) -> int:
            opened.append(pinned(pins / name))
            return opened[-1]

        try:
            return cls(descriptor)
        except CaptureError:
            for each in opened:
                os.close(each)
            raise

    def close(self) -> None:
        """Close descriptors that `pinned` opened; memory stays mapped while it is in use."""
        for each in self._descriptors.values():
            os.close(each)

    @property
    def node_id(self) -> int:
        """Node id in the labels."""
        return int(self._control["node_id"])

    def ports(self) -> Records:
        """A copy of the registers of every port, LABEL_PORT [ports]."""
        return self._ports[self._ports["role"] != LabelRole.NONE].copy()

    def labelling(self) -> LabellingSettings:
        """Interval, label function, MAX_hop and protocol."""
        return labelling_of(self._control, self._chances)

    def set_labelling(self, labelling: LabellingSettings) -> None:
        """Change interval, label function, MAX_hop and protocol. Raises CaptureError for settings that these
        programs do not support.
        """
        interval = round(labelling.interval * 1e9)
        if labelling.too_long != "skip":
            raise CaptureError(
                f"found too_long {labelling.too_long!r}, expected 'skip': these programs fragment no packet"
            )
        if not 0 < interval < MAX_INTERVAL_NS:
            raise CaptureError(
                f"found an interval of {labelling.interval:g} s, expected at most {MAX_INTERVAL_NS / 1e9:.0f}"
            )
        half = 1 - (int(self._control["function"]) >> 4 & 1)
        word, table = thresholds(labelling, half)
        first = half * MAX_CHANCES
        self._chances[first : first + table.size] = table.ravel()
        self._control["max_hop"], self._control["protocol"] = labelling.max_hop, labelling.protocol
        self._control["interval"] = interval
        self._control["rest"] = round(labelling.interval * labelling.rest * 1e9)
        self._control["function"] = word  # the other half is in use from now on

    def set_switch(self, node_id: int, epoch_ns: int, own: bool) -> None:
        """Set node id, the offset from CLOCK_TAI to the time since 1970 (ns), and whether packets that this
        machine sends get labels. Used by `attach`.
        """
        self._control["node_id"], self._control["own"] = node_id, own
        self.set_epoch(epoch_ns)
        self._control["processors"] = os.sysconf("SC_NPROCESSORS_CONF")

    def set_epoch(self, epoch_ns: int) -> None:
        """Change the offset from CLOCK_TAI to the time since 1970, ns."""
        self._control["epoch_ns"] = epoch_ns % 2**64

    def reg2(self) -> dict[int, int]:
        """Reg2 of every port (S, or EVERY), by the number of its interface."""
        ports = self.ports()
        values = np.where(ports["every"], EVERY, ports["shift"])
        return dict(zip(ports["index"].tolist(), values.tolist(), strict=True))

    def set_reg2(self, index: int, value: int) -> bool:
        """Set Reg2 of an interface's port to S or EVERY; False: it is not a port. Raises CaptureError."""
        if not 0 <= value <= MAX_SHIFT and value != EVERY:
            raise CaptureError(f"found S = {value}, expected 0 to {MAX_SHIFT}, or {EVERY}")
        (rows,) = np.nonzero((self._ports["index"] == index) & (self._ports["role"] != LabelRole.NONE))
        if not len(rows):
            return False
        row = self._ports[rows[0]]
        row["every"], row["shift"] = value == EVERY, 0 if value == EVERY else value
        return True

    def tracked(self) -> list[TrackedFlowSettings]:
        """Tracked flows, in no order."""
        found = []
        for key, value in self._flows.items():
            every = int(np.frombuffer(value, FLOW_VALUE)[0]["every"])
            source, destination = (_text(key[:16]), _text(key[16:]))
            found.append(TrackedFlowSettings(src=source, dst=destination, every=every))
        return found

    def replace_tracked(self, flows: Iterable[TrackedFlowSettings]) -> None:
        """Track these flows and no others. Raises CaptureError for more than 1024."""
        wanted = {_packed(flow.src) + _packed(flow.dst): flow.every for flow in flows}
        have = {key: int(np.frombuffer(value, FLOW_VALUE)[0]["every"]) for key, value in self._flows.items()}
        for key in have.keys() - wanted.keys():
            self._flows.delete(key)
        try:
            for key, every in wanted.items():
                if have.get(key) != every:
                    self._flows.put(key, np.array([(every, 0)], FLOW_VALUE).tobytes())
        finally:
            self._control["tracked"] = len(wanted)

    def place(self, index: int, role: LabelRole, longest: int, partial: bool) -> int:
        """Make an interface a port, or change the port; registers of an existing port stay. Returns its row.
        Raises CaptureError if there is no room.
        """
        (rows,) = np.nonzero(self._ports["index"][1:] == index)
        if not len(rows):
            (rows,) = np.nonzero(self._ports["role"][1:] == LabelRole.NONE)
        if not len(rows):
            raise CaptureError(f"more than {MAX_PORTS - 1} ports")
        row = int(rows[0]) + 1
        port = self._ports[row]
        if port["index"] != index:
            self._ports[row] = 0
        port["index"], port["longest"], port["partial"] = index, longest, partial
        port["role"] = role
        return row

    def keep(self, indexes: Iterable[int]) -> None:
        """Free the rows of all other interfaces."""
        self._ports[~np.isin(self._ports["index"], list(indexes))] = 0

    def counts(self) -> dict[LabelCount, int]:
        """Packets by outcome."""
        process = (self._control[name] for name in ("sent", "rejected", "stale"))
        totals = [*self._counters["packets"].sum(axis=0), *process]
        return {count: int(totals[count]) for count in LabelCount}

    def add_sent(self, sent: int, rejected: int, stale: int) -> None:
        """Count datagrams sent and rejected, and packets whose labels waited too long to be sent."""
        self._control["stale"] += np.uint64(stale)
        self._control["sent"] += np.uint64(sent)
        self._control["rejected"] += np.uint64(rejected)

    def _mapped(self, name: str, dtype: np.dtype[Any], rows: int) -> Any:
        return mapped(self._descriptors[name], dtype, rows, name)


def _packed(text: str) -> bytes:
    address = ipaddress.ip_address(text).packed
    return address if len(address) == 16 else bytes(10) + b"\xff\xff" + address


def _text(packed: bytes) -> str:
    address = ipaddress.IPv6Address(packed)
    return str(address.ipv4_mapped or address)
