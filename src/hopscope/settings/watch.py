"""Watch lists of switches: which packets get INT."""

from __future__ import annotations

import ipaddress

from pydantic import field_validator, model_validator

from .section import Port, Section

MAX_WATCHES = 32
"""Most entries of a switch's watch list."""


class WatchSettings(Section):
    """UDP packets that get INT."""

    source: str = "any"
    """Prefix of the source address, as `192.0.2.0/24` or `2001:db8::/32`, or `any`."""
    destination: str = "any"
    """Prefix of the destination address, or `any`."""
    port: Port | None = None
    """UDP destination port, or the first of several; all ports if it is not set."""
    last_port: Port | None = None
    """Last of several ports."""

    @field_validator("source", "destination")
    @classmethod
    def _is_prefix(cls, text: str) -> str:
        try:
            prefix(text)
        except ValueError:
            raise ValueError(f"found {text!r}, expected a prefix, as 192.0.2.0/24, or any") from None
        return text

    @model_validator(mode="after")
    def _is_range(self) -> WatchSettings:
        if self.last_port is not None and (self.port is None or self.last_port < self.port):
            raise ValueError(
                f"found last_port {self.last_port}, expected a port before last_port or the same"
            )
        return self


def prefix(text: str) -> tuple[bytes, bytes]:
    """Address and mask of a prefix, 16 bytes each, IPv4 as ::ffff:a.b.c.d. Raises ValueError."""
    if text == "any":
        return bytes(16), bytes(16)
    network = ipaddress.ip_network(text)
    address, mask = network.network_address.packed, network.netmask.packed
    before = 16 - len(address)
    mapped = bytes(10) + b"\xff\xff"
    return mapped[:before] + address, b"\xff" * before + mask
