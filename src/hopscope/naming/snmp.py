"""Names and counters of a device by SNMP: sysName (RFC 3418), ifTable and ifXTable (RFC 2863).

Data from a device is not trusted: a walk ends at the first row that does not follow the row before it, or
whose ifIndex is not a port number, and names are cleaned.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from pysnmp.hlapi.v3arch import asyncio as snmp
from pysnmp.proto.rfc1902 import Counter32, Counter64, OctetString

from ..base.names import Names, clean_name
from ..settings.configuration.secrets import value_of
from ..settings.names_from import SnmpSettings
from .device import MAX_PORT, DeviceClient, DeviceError, PortCounters

SYS_NAME = (1, 3, 6, 1, 2, 1, 1, 5)
IF_NAME = (1, 3, 6, 1, 2, 1, 31, 1, 1, 1, 1)
IF_ALIAS = (1, 3, 6, 1, 2, 1, 31, 1, 1, 1, 18)
ROWS = 25
"""Rows in one GETBULK request: an answer with long names fits into 1,500 bytes, or the agent shortens it."""
_IF_ENTRY, _IF_X_ENTRY = (1, 3, 6, 1, 2, 1, 2, 2, 1), (1, 3, 6, 1, 2, 1, 31, 1, 1, 1)
COLUMNS = {
    "in_bytes": (*_IF_X_ENTRY, 6),
    "out_bytes": (*_IF_X_ENTRY, 10),
    "in_errors": (*_IF_ENTRY, 14),
    "out_errors": (*_IF_ENTRY, 20),
    "in_discards": (*_IF_ENTRY, 13),
    "out_discards": (*_IF_ENTRY, 19),
}
"""ifHCInOctets, ifHCOutOctets, ifInErrors, ifOutErrors, ifInDiscards, ifOutDiscards."""
_AUTH: dict[str, Any] = {
    "md5": snmp.USM_AUTH_HMAC96_MD5,
    "sha": snmp.USM_AUTH_HMAC96_SHA,
    "sha224": snmp.USM_AUTH_HMAC128_SHA224,
    "sha256": snmp.USM_AUTH_HMAC192_SHA256,
    "sha384": snmp.USM_AUTH_HMAC256_SHA384,
    "sha512": snmp.USM_AUTH_HMAC384_SHA512,
}
_PRIV: dict[str, Any] = {
    "des": snmp.USM_PRIV_CBC56_DES,
    "aes128": snmp.USM_PRIV_CFB128_AES,
    "aes192": snmp.USM_PRIV_CFB192_AES,
    "aes256": snmp.USM_PRIV_CFB256_AES,
}


class SnmpClient(DeviceClient):
    """Asks SNMP agents."""

    def __init__(self, key: str, settings: SnmpSettings) -> None:
        """`key`: name of the table. Raises ConfigError if a secret is missing."""
        self._settings = settings
        self._credentials = _credentials(key, settings)
        self._engine = snmp.SnmpEngine()

    async def close(self) -> None:
        """Close the sockets."""
        self._engine.close_dispatcher()

    async def _names(self, node: int, host: str) -> Names:
        target = await self._target(host)
        rows = await self._answer(snmp.get_cmd, target, (*SYS_NAME, 0))
        name = _text(rows[0][1]) if rows else ""
        ports: dict[int, str] = {}
        for column in (IF_NAME, IF_ALIAS) if self._settings.interfaces == "alias" else (IF_NAME,):
            async for port, value in self._column(target, column):
                if text := _text(value):
                    ports[port] = text
        return Names({node: name} if name else {}, {(node, port): text for port, text in ports.items()})

    async def _counters(self, host: str) -> PortCounters:
        target = await self._target(host)
        found: PortCounters = {}
        for name, column in COLUMNS.items():
            async for port, value in self._column(target, column):
                if isinstance(value, Counter32 | Counter64):
                    found.setdefault(port, {})[name] = int(value)
        return found

    async def _target(self, host: str) -> Any:
        kind = snmp.Udp6TransportTarget if ":" in host else snmp.UdpTransportTarget
        settings = self._settings
        return await kind.create((host, settings.port), timeout=settings.timeout_seconds, retries=1)

    async def _column(self, target: Any, column: tuple[int, ...]) -> AsyncIterator[tuple[int, Any]]:
        """ifIndex and value of every row of a column."""
        last, length = 0, len(column)
        while last < MAX_PORT:
            rows = await self._answer(snmp.bulk_cmd, target, (*column, last), 0, ROWS)
            for oid, value in rows:
                place = tuple(oid)
                if len(place) != length + 1 or place[:length] != column or not last < place[-1] <= MAX_PORT:
                    return
                last = place[-1]
                yield last, value
            if not rows:
                return

    async def _answer(self, command: Any, target: Any, oid: tuple[int, ...], *options: int) -> Any:
        """Object ids and values in the answer to a request. Raises DeviceError."""
        requested = snmp.ObjectType(snmp.ObjectIdentity(oid))
        problem, status, _, rows = await command(
            self._engine, self._credentials, target, snmp.ContextData(), *options, requested, lookupMib=False
        )
        if problem:
            raise DeviceError(str(problem))
        if status:
            raise DeviceError(f"the device answers {status.prettyPrint()}")
        return rows


def _text(value: Any) -> str:
    """A cleaned name; empty if the value is not a text, for example if there is no such object."""
    return clean_name(value.asOctets()) if isinstance(value, OctetString) else ""


def _credentials(key: str, settings: SnmpSettings) -> Any:
    if settings.community is not None:
        return snmp.CommunityData(value_of(f"{key}.community", settings.community), mpModel=1)
    auth = value_of(f"{key}.auth_password", settings.auth_password)
    priv = value_of(f"{key}.priv_password", settings.priv_password)
    return snmp.UsmUserData(
        settings.user,
        auth,
        priv,
        authProtocol=_AUTH[settings.auth_protocol] if auth else snmp.USM_AUTH_NONE,
        privProtocol=_PRIV[settings.priv_protocol] if priv else snmp.USM_PRIV_NONE,
    )
