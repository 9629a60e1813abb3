"""The contract of a driver, which reaches one switch."""

from __future__ import annotations

from importlib import import_module
from typing import Protocol

from ..base.errors import HopscopeError
from ..settings.switches import ControlledSettings
from .neighbours import SwitchPorts
from .state import SwitchState


class SouthboundError(HopscopeError):
    """The switch cannot be reached, or refuses; the message is one line. It is tried again."""


class StandbyError(SouthboundError):
    """Another controller changes the switch: this one waits. The driver stays connected."""


class RefusedError(SouthboundError):
    """The switch cannot do this part of a change; the message says why. The driver stays connected, and other
    parts can be applied.
    """


class Driver(Protocol):
    """Reaches one switch. One thread calls it; each method raises SouthboundError.

    After an error the driver is closed, and connected again later: `connect` starts from the beginning.
    """

    def connect(self) -> None:
        """Open what is needed; at most the time that the settings allow."""

    def read(self) -> SwitchState:
        """What the switch does now; parts that it does not have are None."""

    def apply(self, change: SwitchState) -> None:
        """Change the parts that are there; of `reg2` only the given ports. `read` has been called since
        `connect`. A change may be applied again, as a whole or part by part. Raises RefusedError for what the
        switch cannot do.
        """

    def ports(self) -> SwitchPorts | None:
        """Its ports, with the neighbours that LLDP names; None: it cannot say."""

    def close(self) -> None:
        """Let go; never raises. It may be called at any time."""


DRIVERS = {
    "ebpf": "ebpf:EbpfDriver",
    "http": "http:HttpDriver",
    "p4runtime": "p4runtime:P4RuntimeDriver",
}
"""Module in `drivers`, and class, by kind."""


def driver_of(name: str, settings: ControlledSettings) -> Driver:
    """The driver of a switch `switches.NAME`. Raises HopscopeError if a package that it needs is missing."""
    module, _, kind = DRIVERS[settings.kind].partition(":")
    found: Driver = getattr(import_module(f".drivers.{module}", __package__), kind)(name, settings)
    return found
