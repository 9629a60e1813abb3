"""The contract of a driver, which reaches one switch."""

from __future__ import annotations

from importlib import import_module
from typing import Protocol

from ..base.errors import HopscopeError
from ..settings.switches import ControlledSettings
from .neighbours import SwitchPorts
from .state import SwitchState


class SouthboundError(HopscopeError):
    """The switch cannot be reached, or refuses; the message is one line. The attempt is repeated later."""


class StandbyError(SouthboundError):
    """Another controller is in charge of the switch, so this one waits. The driver stays connected."""


class RefusedError(SouthboundError):
    """The switch cannot do this part of a change; the message says why. The driver stays connected, and other
    parts can be applied.
    """


class Driver(Protocol):
    """Reaches one switch. One thread calls it; each method raises SouthboundError.

    After an error the driver is closed, and connected again later: `connect` starts from the beginning.
    """

    def connect(self) -> None:
        """Connect to the switch, within the time that the settings allow."""

    def read(self) -> SwitchState:
        """The current state of the switch; parts that it does not have are None."""

    def apply(self, change: SwitchState) -> None:
        """Change the parts of the state that are not None; in `reg2`, only the given ports.

        Called after `connect` and `read`. A change may be applied again, as a whole or part by part. Raises
        RefusedError for a change that the switch cannot make.
        """

    def ports(self) -> SwitchPorts | None:
        """Its ports, with their neighbours by LLDP; None: it does not provide them."""

    def close(self) -> None:
        """Release all resources; never raises. May be called at any time."""


DRIVERS = {
    "ebpf": "ebpf:EbpfDriver",
    "http": "http:HttpDriver",
    "p4runtime": "p4runtime:P4RuntimeDriver",
}
"""MODULE:CLASS in `drivers`, by kind."""


def driver_of(name: str, settings: ControlledSettings) -> Driver:
    """The driver of a switch `switches.NAME`. Raises HopscopeError if a package that it needs is missing."""
    module, _, kind = DRIVERS[settings.kind].partition(":")
    return getattr(import_module(f".drivers.{module}", __package__), kind)(name, settings)
