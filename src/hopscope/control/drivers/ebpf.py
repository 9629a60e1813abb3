"""Programs on this machine (`hopscope switch attach`): their pinned maps."""

from __future__ import annotations

from ...capture.errors import CaptureError
from ...settings.switches import EbpfSwitchSettings
from ...switch.watches import read_watches, replace_watches
from ..driver import SouthboundError
from ..state import SwitchState


class EbpfDriver:
    """The maps below a folder of pins. They are opened for each use: a program may be attached again."""

    def __init__(self, name: str, settings: EbpfSwitchSettings) -> None:
        self._pins = settings.pins

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

    def close(self) -> None:
        """Nothing."""
