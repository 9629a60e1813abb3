"""Devices that are queried for names and counters: the settings of each table are those of its kind."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, SerializeAsAny, field_validator, model_validator

from .destinations.tls import TlsSettings
from .section import NodeIds, Port, Seconds, Section, TableName, device_number, is_reference, of_kind

MIN_PASSWORD = 8
"""Shortest password of SNMPv3, in characters (RFC 3414 §11.2)."""


class DeviceSettings(Section):
    """Devices that are queried for their name and those of their interfaces, such as `[names_from.edge]`."""

    kind: str
    """Protocol to query them with: `snmp` or `gnmi`."""
    hosts: tuple[str, ...] = Field(min_length=1)
    """Addresses of the devices."""
    nodes: NodeIds = Field(default={})
    """Node ids by address, such as `{"192.0.2.7" = 7}`. By default, a device has the last 32 bits of its
    address.
    """
    interfaces: Literal["name", "alias"] = "name"
    """Name of a port: `name` is the name of the interface (ifName, openconfig's `name`); `alias` is the text
    that operators write (ifAlias, `description`), or the name of the interface if there is no text.
    """
    interval_seconds: Seconds = Field(default=300.0, ge=10)
    """How often each device is queried for names."""
    counters_seconds: Seconds = Field(default=0, le=86_400)
    """Time between two reads of a device's interface counters, at least 1, such as 30; 0: they are not read.
    """
    timeout_seconds: Seconds = Field(default=3.0, gt=0, le=60)
    """How long a device may take to answer. SNMP tries a second time."""

    @field_validator("counters_seconds")
    @classmethod
    def _are_read_at_most_each_second(cls, seconds: float) -> float:
        if 0 < seconds < 1:
            raise ValueError(f"found {seconds}, expected 0 (never), or 1 to 86400")
        return seconds

    @field_validator("hosts")
    @classmethod
    def _addresses(cls, hosts: tuple[str, ...]) -> tuple[str, ...]:
        for text in hosts:
            device_number(text)
        return hosts

    @property
    def devices(self) -> dict[int, str]:
        """Address of each device by its node id."""
        ids = {device_number(text): node for text, node in self.nodes.items()}
        numbers = ((device_number(host), host) for host in self.hosts)
        return {ids.get(number, number & 0xFFFF_FFFF): host for number, host in numbers}


class SnmpSettings(DeviceSettings):
    """Devices with an SNMP agent: SNMPv2c with `community`, SNMPv3 with `user`."""

    port: Port = 161
    """UDP port of their agents."""
    community: str | None = None
    """Community of SNMPv2c; `env:NAME` or `file:PATH` says where to find it."""
    user: str = Field(default="", max_length=32)
    """User of SNMPv3."""
    auth_protocol: Literal["md5", "sha", "sha224", "sha256", "sha384", "sha512"] = "sha256"
    """How messages of `user` are authenticated."""
    auth_password: str | None = None
    """Password of `user`, 8 characters or more; without one, messages are not authenticated."""
    priv_protocol: Literal["des", "aes128", "aes192", "aes256"] = "aes128"
    """How messages of `user` are encrypted."""
    priv_password: str | None = None
    """Password of the encryption, 8 characters or more; without one, messages are not encrypted."""

    @model_validator(mode="after")
    def _credentials(self) -> SnmpSettings:
        if (self.community is None) == (not self.user):
            raise ValueError("expected community (SNMPv2c) or user (SNMPv3)")
        for name in ("auth_password", "priv_password"):
            password = getattr(self, name)
            if password is None:
                continue
            if not self.user:
                raise ValueError(f"found {name} without user, expected both")
            if not is_reference(password) and len(password) < MIN_PASSWORD:
                raise ValueError(f"{name}: found {len(password)} characters, expected {MIN_PASSWORD} or more")
        if self.priv_password is not None and self.auth_password is None:
            raise ValueError("found priv_password without auth_password, expected both")
        return self


class GnmiSettings(TlsSettings, DeviceSettings):
    """Devices with a gNMI server and OpenConfig's models of the system and of interfaces."""

    port: Port = 9339
    """TCP port of their servers."""
    tls: bool = True
    """Connect over TLS. Without it, everything is readable on the wire, including the password."""
    server_name: str = Field(default="", pattern=r"^[A-Za-z0-9.:_-]*$")
    """TLS: name in the certificates of the devices, if it is not the address of each."""
    user: str = ""
    """User name, sent with every request; empty: none."""
    password: str | None = None
    """Password of `user`; `env:NAME` or `file:PATH` says where to find it."""

    @model_validator(mode="after")
    def _credentials(self) -> GnmiSettings:
        if self.password is not None and not self.user:
            raise ValueError("found password without user, expected both")
        return self


DEVICE_KINDS: dict[str, type[DeviceSettings]] = {"snmp": SnmpSettings, "gnmi": GnmiSettings}
"""Settings of the kinds."""

NamedDevices = dict[
    TableName,
    Annotated[SerializeAsAny[DeviceSettings], of_kind(DEVICE_KINDS)],
]
"""Tables of devices by name."""


def check_devices(tables: NamedDevices) -> None:
    """Raises ValueError if two devices would be one node."""
    seen: dict[int, str] = {}
    for name, table in tables.items():
        found = table.devices
        if len(found) < len(table.hosts):
            raise ValueError(f"names_from.{name}: found two hosts of one node, expected a node for each")
        for node, host in found.items():
            if node in seen:
                raise ValueError(
                    f"names_from.{name}: found node {node} for {host}, which is {seen[node]} already, "
                    "expected another one in nodes"
                )
            seen[node] = host
