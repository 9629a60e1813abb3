"""Chooses the client for a table of devices."""

from __future__ import annotations

from ..base.names import Names
from ..settings.names_from import DeviceSettings, GnmiSettings, SnmpSettings
from .device import DeviceClient


def client_of(key: str, settings: DeviceSettings) -> DeviceClient:
    """The client for a table named `key`. Raises ConfigError if a secret or a certificate is missing."""
    if isinstance(settings, GnmiSettings):
        from .gnmi import GnmiClient

        return GnmiClient(key, settings)
    assert isinstance(settings, SnmpSettings)
    from .snmp import SnmpClient

    return SnmpClient(key, settings)


async def ask(key: str, settings: DeviceSettings, node: int, host: str) -> Names:
    """Ask one device for its names, once. Raises DeviceError; ConfigError if a secret is missing."""
    client = client_of(key, settings)
    try:
        return await client.names(node, host)
    finally:
        await client.close()
