"""Drop reports: a program at the kernel's tracepoint of dropped packets, and its counts by reason."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

from ..bpf.build import DROPS_OBJECT
from ..bpf.kernel_types import enumeration
from ..bpf.libbpf import BpfObject
from ..bpf.tc import attach_tracing, pinned_entries
from ..capture.errors import CaptureError
from .layout import DROP_CONTROL, SHARED
from .settings import SwitchSettings

LINK, REASONS = "drops", "drop_reasons"
"""Names of the pins of the link and of the counters."""
_PREFIX = "SKB_DROP_REASON_"


def attach_drops(settings: SwitchSettings) -> None:
    """Start to report packets of the watch list that are dropped in this network namespace. Raises
    CaptureError.
    """
    failure: CaptureError | None = None
    for has_socket in (1, 0):
        try:
            with closing(BpfObject(DROPS_OBJECT)) as program:
                for name in {*SHARED, REASONS} - {"control", "ports"}:
                    program.share(name, settings.pins / name)
                program.constants()[:4] = has_socket.to_bytes(4, "little")
                program.load()
                control = program.memory("drop_control", DROP_CONTROL.itemsize).view(DROP_CONTROL)[0]
                control["interval_ns"] = 10**9 // settings.drop_rate
                control["network"] = Path("/proc/self/ns/net").stat().st_ino
                control["port"], control["dscp"] = settings.port or 0, settings.dscp
                detach_drops(settings.pins)
                attach_tracing(program.program("dropped"), settings.pins / LINK)
            return
        except CaptureError as error:
            failure = failure or error
    raise CaptureError(f"drop reports: {failure}")


def detach_drops(pins: Path) -> None:
    """Stop reporting drops."""
    (pins / LINK).unlink(missing_ok=True)


def drops(pins: Path) -> dict[str, int]:
    """Dropped packets of the watch list by the kernel's reason, the most frequent first. Raises
    CaptureError.
    """
    if not (pins / REASONS).exists():
        return {}
    found = {
        int.from_bytes(reason, sys.byteorder): int.from_bytes(number, sys.byteorder)
        for reason, number in pinned_entries(pins / REASONS, 4, 8).items()
    }
    names = {number: name for name, number in enumeration("skb_drop_reason").items()}
    return {
        names.get(reason, f"reason_{reason}").removeprefix(_PREFIX).lower(): number
        for reason, number in sorted(found.items(), key=lambda each: -each[1])
    }
