"""Names of a device by SNMP: sysName (RFC 3418), ifName and ifAlias (RFC 2863).

Nothing that a device sends is believed: walks end at the first row that does not follow the one before it, or
whose ifIndex is no port number, and names are cleaned.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from pysnmp.hlapi.v3arch import asyncio as snmp
from pysnmp.proto.rfc1902 import OctetString

from ..base.errors import HopscopeError
from ..base.names import Names, clean_name
from ..settings.names_from import NamesFromSettings
from ..settings.secrets import value_of

SYS_NAME = (1, 3, 6, 1, 2, 1, 1, 5)
IF_NAME = (1, 3, 6, 1, 2, 1, 31, 1, 1, 1, 1)
IF_ALIAS = (1, 3, 6, 1, 2, 1, 31, 1, 1, 1, 18)
ROWS = 25
"""Rows of one GETBULK request: an answer with full names fits into 1,500 bytes, or is cut by the agent."""
MAX_PORT = 0xFFFE
"""Highest ifIndex that events can name; 65535 is no port."""
DEVICE_SECONDS = 60.0
"""Longest time for all names of a device."""
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


class SnmpError(HopscopeError):
    """A device does not answer, or rejects the request."""


class SnmpClient:
    """Asks the devices of a table of the settings, within one event loop; `close` it."""

    def __init__(self, key: str, settings: NamesFromSettings) -> None:
        """`key`: of the table. Raises ConfigError if a secret is missing."""
        self._settings = settings
        self._credentials = _credentials(key, settings)
        self._engine = snmp.SnmpEngine()

    def close(self) -> None:
        """Close its sockets."""
        self._engine.close_dispatcher()

    async def names(self, node: int, host: str) -> Names:
        """Names of a device and its ports. Raises SnmpError."""
        try:
            async with asyncio.timeout(DEVICE_SECONDS):
                return await self._names(node, host)
        except TimeoutError:
            raise SnmpError(f"its names took more than {DEVICE_SECONDS:g} s") from None
        except SnmpError:
            raise
        except Exception as error:  # of the library, which reads what devices send
            raise SnmpError(clean_name(f"{type(error).__name__}: {error}".encode())) from None

    async def _names(self, node: int, host: str) -> Names:
        settings = self._settings
        kind = snmp.Udp6TransportTarget if ":" in host else snmp.UdpTransportTarget
        target = await kind.create((host, settings.port), timeout=settings.timeout_seconds, retries=1)
        rows = await self._answer(snmp.get_cmd, target, (*SYS_NAME, 0))
        name = _text(rows[0][1]) if rows else ""
        ports = {port: text async for port, text in self._column(target, IF_NAME) if text}
        if settings.interfaces == "alias":
            ports |= {port: text async for port, text in self._column(target, IF_ALIAS) if text}
        return Names({node: name} if name else {}, {(node, port): text for port, text in ports.items()})

    async def _column(self, target: Any, column: tuple[int, ...]) -> AsyncIterator[tuple[int, str]]:
        """ifIndex and text of every row of a column."""
        last, length = 0, len(column)
        while last < MAX_PORT:
            rows = await self._answer(snmp.bulk_cmd, target, (*column, last), 0, ROWS)
            for oid, value in rows:
                place = tuple(oid)
                if len(place) != length + 1 or place[:length] != column or not last < place[-1] <= MAX_PORT:
                    return
                last = place[-1]
                yield last, _text(value)
            if not rows:
                return

    async def _answer(self, command: Any, target: Any, oid: tuple[int, ...], *options: int) -> Any:
        """Object ids and values of an answer. Raises SnmpError."""
        wanted = snmp.ObjectType(snmp.ObjectIdentity(oid))
        problem, status, _, rows = await command(
            self._engine, self._credentials, target, snmp.ContextData(), *options, wanted, lookupMib=False
        )
        if problem:
            raise SnmpError(str(problem))
        if status:
            raise SnmpError(f"the device answers {status.prettyPrint()}")
        return rows


async def ask(key: str, settings: NamesFromSettings, node: int, host: str) -> Names:
    """Names of one device, asked once. Raises SnmpError; ConfigError if a secret is missing."""
    client = SnmpClient(key, settings)
    try:
        return await client.names(node, host)
    finally:
        client.close()


def _text(value: Any) -> str:
    """A cleaned name; empty for what is no text, as that there is no such object."""
    return clean_name(value.asOctets()) if isinstance(value, OctetString) else ""


def _credentials(key: str, settings: NamesFromSettings) -> Any:
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
