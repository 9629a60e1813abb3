"""Loads the XDP program of a sink in a wire for a dialect, attaches it, and reads its counters."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..capture.errors import CaptureError
from ..capture.interface import index_of
from ..wire import rules
from ..wire.dialect import DEFAULT, Dialect
from .build import WIRE_OBJECT
from .libbpf import BpfObject
from .wire_layout import WIRE_VARIABLES, WireCount, WireRole

_ETHERNET = 14
_TUNNELS = sum(role for role, _ in rules.TUNNEL_ROLES) | rules.ROLE_REPORT
_SAME = (
    (rules.SHIM, 256), (rules.INT_LAYOUT, 128), (rules.MD_CHANGED, 1), (rules.NPT_SHIFTS, 3),
    (rules.ANY_SHIM_LENGTH, rules.NPT_SHIFTS - rules.ANY_SHIM_LENGTH),
    (rules.ITEMS, rules.TABLE - rules.ITEMS),
)  # fmt: skip
"""Rules (index, length) in which a dialect must not differ from the specification for the program to read
INT.
"""


class WireProgram:
    """Forwards frames from one interface to another, and puts the heads of INT packets into a ring.

    The program is removed by `close`, or when this process ends, even if it is killed.
    """

    def __init__(
        self,
        dialect: Dialect = DEFAULT,
        *,
        strip: bool = True,
        ring_bytes: int = 1 << 25,
        path: Path = WIRE_OBJECT,
        name: str = "wire",
    ) -> None:
        """Load the program. `ring_bytes`: size of the ring, rounded up to a power of two; `path`: object
        file; `name`: name of the program in it. Raises CaptureError.
        """
        self._name = name
        self.ring_bytes = 1 << (ring_bytes - 1).bit_length()
        self._object = BpfObject(path)
        self._object.resize("ring", self.ring_bytes)
        self._object.load()
        self.ring = self._object.descriptor("ring")
        """Descriptor of the ring."""
        self._variables = self._object.memory(".bss", WIRE_VARIABLES.itemsize).view(WIRE_VARIABLES)[0]
        table = dialect.table()
        control = self._variables["control"]
        control["strip"], control["read"] = strip, reads(dialect)
        announced = np.flatnonzero(table[rules.INT_DSCP : rules.INT_DSCP + 64])
        control["dscp"] = sum(1 << int(dscp) for dscp in announced)
        control["plain_dscp"] = table[rules.PLAIN_DSCP : rules.PLAIN_DSCP + 64]
        self._variables["roles"] = _roles(dialect)

    def aim(self, output: str) -> None:
        """Forward to this interface. Raises CaptureError."""
        self._object.put("output", 0, index_of(output))

    def attach(self, interface: str, *, generic: bool = True) -> bool:
        """Run it on frames that an interface receives; returns True if the driver runs it (native), False if
        the network stack does (generic). Nothing is forwarded before `turn_on`. Raises CaptureError.
        """
        try:
            return self._object.attach(self._name, index_of(interface), generic=generic)
        except CaptureError as error:
            raise CaptureError(f"{interface}: {error}") from error

    def turn_on(self, mtu: int) -> None:
        """Start to forward to an output with this MTU; 0: the output cannot send, frames are passed up."""
        control = self._variables["control"]
        control["longest"] = mtu + _ETHERNET
        control["on"] = mtu > 0

    def detach(self) -> None:
        """Detach the program; heads that it has passed up stay in the ring."""
        self._object.detach()

    def counts(self) -> dict[WireCount, int]:
        """Frames by outcome."""
        totals = self._variables["counters"]["frames"].sum(axis=0)
        return {count: int(totals[count]) for count in WireCount}

    @property
    def forwarded_bytes(self) -> int:
        """Bytes of all frames that it forwarded, as received."""
        return int(self._variables["counters"]["bytes"].sum())

    def run(self, frame: bytes, repeat: int = 1) -> tuple[int, int]:
        """Run it on a frame as if an interface had received it; (verdict, mean duration of `repeat` runs,
        ns).
        """
        return self._object.run(self._name, frame, repeat)

    def changed(self, frame: bytes) -> tuple[int, bytes]:
        """Run it on a frame; returns (verdict, resulting frame)."""
        return self._object.changed(self._name, frame)

    def close(self) -> None:
        """Detach and free the program; `counts` stays available."""
        self._variables = self._variables.copy()
        self._object.close()


def reads(dialect: Dialect) -> bool:
    """Whether the program can read the INT of a dialect: the marks that announce INT may differ from the
    specification, its form may not.
    """
    table, spec = dialect.table(), DEFAULT.table()
    return all((table[at : at + size] == spec[at : at + size]).all() for at, size in _SAME)


def knows(dialect: Dialect) -> bool:
    """Whether the program can recognise frames without INT in a dialect: DSCP or port announce all INT."""
    return not dialect.table()[rules.UNMARKED]


def _roles(dialect: Dialect) -> np.typing.NDArray[np.uint8]:
    """WireRole of each UDP destination port."""
    roles = dialect.table()[rules.UDP_ROLE : rules.UDP_ROLE + (1 << 16)]
    found = np.full(1 << 16, WireRole.NOTHING, np.uint8)
    found[(roles & rules.ROLE_INT) > 0] = WireRole.INT
    found[(roles & rules.ROLE_INSERTED) > 0] = WireRole.INSERTED
    found[(roles & _TUNNELS) > 0] = WireRole.UP
    return found
