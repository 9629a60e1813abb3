"""What this kernel supports of a switch, found without leaving anything loaded or attached."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from ..bpf.kernel_types import enumeration, has_function
from ..bpf.tc import file_system_problem
from ..capture.errors import CaptureError
from ..capture.interface import exists
from .program import SwitchProgram
from .segments import check_segments
from .settings import SwitchSettings


def allowed(settings: SwitchSettings) -> Iterator[tuple[str, str, str]]:
    """(subject, finding, remedy; empty: none is needed)."""
    try:
        with closing(SwitchProgram(settings)):
            yield "programs", "this kernel accepts them", ""
    except CaptureError as error:
        yield "programs", "cannot be loaded", str(error)
    if has_function("tcx_prog_attach"):
        yield "attachment", "tcx: programs are replaced without a gap", ""
    else:
        yield "attachment", "clsact: this kernel has no tcx (Linux 6.6)", ""
    if has_function("bpf_cast_to_kern_ctx"):
        yield "queue_occupancy", "known", ""
    else:
        yield "queue_occupancy", "unknown", "this needs Linux 6.2; packets carry all ones instead"
    reasons = len(enumeration("skb_drop_reason"))
    if reasons:
        yield "drop reports", f"this kernel has {reasons} reasons", ""
    else:
        yield "drop reports", "none", "these need a kernel with type information (BTF)"
    if problem := file_system_problem(settings.pins):
        yield "pins", f"{settings.pins} cannot be created", problem
    missing = [name for name in (*settings.interfaces, *settings.hosts) if not exists(name)]
    for interface in missing:
        yield interface, "no such interface in this network namespace", "attach fails"
    if missing:
        return
    try:
        check_segments(settings)
    except CaptureError as error:
        yield "TCP", "segments are merged", str(error)
