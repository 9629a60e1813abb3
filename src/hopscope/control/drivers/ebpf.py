"""Programs on this machine (`hopscope switch attach`): their pinned maps."""

from __future__ import annotations

from ...capture.errors import CaptureError
from ...settings.switches import EbpfSwitchSettings
from ...switch.watches import read_watches, replace_watches
from ..driver import SouthboundError
from ..neighbours import LocalPorts, SwitchPorts
from ..state import SwitchState


class EbpfDriver:
    """The maps below a folder of pins. They are opened for each use: a program may be attached again."""

    def __init__(self, name: str, settings: EbpfSwitchSettings) -> None:
        self._pins, self._local = settings.pins, LocalPorts()

    def connect(self) -> None:
        """Nothing: `read` fails if nothing is attached."""

    def read(self) -> SwitchState:
        """What the programs do now. Raises SouthboundError."""
        try:
            return SwitchState.model_construct(watch=read_watches(self._pins))
        except CaptureError as error:
            raise SouthboundError(str(error)) from None

    def apply(self, change: SwitchState) -> None:
        """Change the parts that are there. Raises SouthboundError."""
        try:
            if change.watch is not None:
                replace_watches(self._pins, change.watch)
        except CaptureError as error:
            raise SouthboundError(str(error)) from None

    def ports(self) -> SwitchPorts:
        """The interfaces with a program, which have pins named after them."""
        names = {path.name for path in self._pins.glob("*gress-*")} if self._pins.is_dir() else set()
        numbers = {int(name.rpartition("-")[2]) for name in names if name.rpartition("-")[2].isdecimal()}
        return self._local.read(numbers)

    def close(self) -> None:
        """Listen to neighbours no longer."""
        self._local.close()
