"""Watch lists of switches: which packets get INT."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from .section import Port, Section

MAX_WATCHES = 32
"""Most entries of a switch's watch list."""


class WatchSettings(Section):
    """Packets that get INT."""

    source: str = "any"
    """Prefix of the source address, such as `192.0.2.0/24` or `2001:db8::/32`, or `any`."""
    destination: str = "any"
    """Prefix of the destination address, or `any`."""
    port: Port | None = None
    """Destination port, or the first of a range; not set: all ports."""
    last_port: Port | None = None
    """Last port of the range."""
    protocol: Literal["udp", "tcp", "any"] = "udp"
    """`udp`, `tcp`, or `any` for both."""
    mode: Literal["md", "mx", "xd", "drops"] = "md"
    """`md`: the packet carries the metadata that hops write into it (INT-MD). `mx`: it carries only
    instructions, and every hop reports it (INT-MX). `xd`: it is not changed, and every machine that watches
    it reports it (INT-XD). `drops`: it is reported only if it is dropped.
    """
    sample: Annotated[int, Field(ge=1, le=1 << 31)] = 1
    """N: one packet in N, or one flow in N (`sample_by`), is taken."""
    sample_by: Literal["packet", "flow"] = "packet"
    """`packet`: packets at random; with `xd` by a hash of their contents, so that every switch chooses the
    same. `flow`: all packets of some flows, by a hash of addresses, protocol and ports, so that every switch
    chooses the same.
    """

    @field_validator("source", "destination")
    @classmethod
    def _is_prefix(cls, text: str) -> str:
        try:
            prefix(text)
        except ValueError:
            raise ValueError(f"found {text!r}, expected a prefix, such as 192.0.2.0/24, or any") from None
        return text

    @model_validator(mode="after")
    def _is_range(self) -> WatchSettings:
        if self.last_port is not None and (self.port is None or self.last_port < self.port):
            raise ValueError(
                f"found last_port {self.last_port}, expected a port before last_port or the same"
            )
        ends = [ipaddress.ip_network(text) for text in (self.source, self.destination) if text != "any"]
        if len({end.version for end in ends}) > 1:
            raise ValueError(f"found {self.source} and {self.destination}, expected prefixes of one version")
        return self

    @property
    def ports(self) -> tuple[int, int]:
        """First and last destination port."""
        if self.port is None:
            return 0, 65535
        return self.port, self.port if self.last_port is None else self.last_port


def prefix(text: str) -> tuple[bytes, bytes]:
    """Address and mask of a prefix, 16 bytes each, IPv4 as ::ffff:a.b.c.d. Raises ValueError."""
    if text == "any":
        return bytes(16), bytes(16)
    network = ipaddress.ip_network(text)
    address, mask = network.network_address.packed, network.netmask.packed
    before = 16 - len(address)
    mapped = bytes(10) + b"\xff\xff"
    return mapped[:before] + address, b"\xff" * before + mask
