"""Programs on this machine (`hopscope switch attach`): their pinned maps."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from ...capture.errors import CaptureError
from ...settings.switches import EbpfSwitchSettings
from ...switch.labels.maps import LabelMaps
from ...switch.watches import read_watches, replace_watches
from ..driver import RefusedError, SouthboundError
from ..neighbours import LocalPorts, SwitchPorts
from ..state import SwitchState


class EbpfDriver:
    """The maps in a folder of pins. They are opened for each use, since a program may be attached again."""

    def __init__(self, name: str, settings: EbpfSwitchSettings) -> None:
        self._pins, self._local = settings.pins, LocalPorts()

    def connect(self) -> None:
        """Does nothing: `read` fails if no program is attached."""

    def read(self) -> SwitchState:
        """The current state of the programs. Raises SouthboundError."""
        try:
            watch = read_watches(self._pins)
            if not _has_labels(self._pins):
                return SwitchState.model_construct(watch=watch)
            with closing(LabelMaps.pinned(self._pins)) as maps:
                return SwitchState.model_construct(
                    watch=watch, track=tuple(maps.tracked()), labelling=maps.labelling(), reg2=maps.reg2()
                )
        except CaptureError as error:
            raise SouthboundError(str(error)) from None

    def apply(self, change: SwitchState) -> None:
        """Change the parts that are not None. Raises SouthboundError, RefusedError."""
        try:
            if change.watch is not None:
                replace_watches(self._pins, change.watch)
            if {*change.parts()} - {"watch"}:
                with closing(LabelMaps.pinned(self._pins)) as maps:
                    _apply_labels(maps, change)
        except CaptureError as error:
            raise SouthboundError(str(error)) from None

    def ports(self) -> SwitchPorts:
        """The interfaces with a program, which have pins named after them."""
        names = {path.name for path in self._pins.glob("*gress-*")} if self._pins.is_dir() else set()
        numbers = {int(name.rpartition("-")[2]) for name in names if name.rpartition("-")[2].isdecimal()}
        return self._local.read(numbers)

    def close(self) -> None:
        """Stop listening to neighbours."""
        self._local.close()


def _has_labels(pins: Path) -> bool:
    return (pins / "label_control").exists()


def _apply_labels(maps: LabelMaps, change: SwitchState) -> None:
    """Change the state of INT-label's programs. Raises RefusedError for a change that they cannot make."""
    try:
        if change.labelling is not None:
            maps.set_labelling(change.labelling)
        if change.track is not None:
            maps.replace_tracked(change.track)
        for port, value in (change.reg2 or {}).items():
            maps.set_reg2(port, value)
    except CaptureError as error:
        raise RefusedError(str(error)) from None
