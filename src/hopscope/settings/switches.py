"""Switches that the controller reaches, and what it asks of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, SerializeAsAny, field_validator, model_validator

from .destinations.tls import TlsSettings
from .section import Number16, Seconds, Section, TableName, Token, host_and_port, is_loopback, of_kind
from .watch import MAX_WATCHES, WatchSettings

MAX_CONTROLLED = 1024
"""Most switches: each has a thread."""


class ControlledSettings(Section):
    """A switch that the controller reaches, such as `[switches.leaf1]`."""

    kind: str
    """How it is reached: `ebpf` (programs on this machine), `http` (`hopscope switch serve` on a Linux
    switch) or `p4runtime`."""
    node: Annotated[int, Field(ge=0, lt=0xFFFFFFFF)]
    """Its node id in reports and labels."""

    @property
    def place(self) -> str:
        """Where it is, as it is shown."""
        raise NotImplementedError


class EbpfSwitchSettings(ControlledSettings):
    """Programs that `hopscope switch attach` has attached on this machine. The collector needs root, or
    CAP_BPF and access to the folder.
    """

    pins: Path = Path("/sys/fs/bpf/hopscope-switch")
    """`switch.pins` of the file of `hopscope switch`."""

    @property
    def place(self) -> str:
        """The folder."""
        return str(self.pins)


class HttpSwitchSettings(TlsSettings, ControlledSettings):
    """A Linux switch that runs `hopscope switch serve`."""

    url: str = Field(pattern=r"^https?://[^/?#@\s]+/?$")
    """Address of its server, such as `https://192.0.2.7:7255`; `http://` on this machine only."""
    token: Token
    """Its token, 16 characters or more; `env:NAME` or `file:PATH` says where to find it."""
    timeout_seconds: Seconds = Field(default=3.0, gt=0, le=60)
    """How long an answer may take."""

    @model_validator(mode="after")
    def _keeps_its_token(self) -> HttpSwitchSettings:
        """The token changes the switch: it never crosses a network in the clear."""
        place = urlsplit(self.url)
        if place.scheme == "http" and not is_loopback(place.hostname or ""):
            raise ValueError(f"found {self.url!r}, expected https:// beyond loopback")
        return self

    @property
    def place(self) -> str:
        """The URL."""
        return self.url


class P4RuntimeSwitchSettings(TlsSettings, ControlledSettings):
    """A switch with a P4Runtime server, whose program has the tables of `p4/`."""

    address: str
    """Host and TCP port of its server, such as `192.0.2.9:9559`."""
    device_id: Annotated[int, Field(ge=0, lt=1 << 64)] = 1
    """Device id in P4Runtime."""
    election_id: Annotated[int, Field(ge=1, lt=1 << 63)] = 1
    """Of several controllers, the one with the highest number changes the switch; the others wait."""
    tls: bool = True
    """Connect over TLS. Without it, anyone on the way can change what is sent."""
    p4info: Path | None = None
    """P4Info (text) of `program`."""
    program: Path | None = None
    """Compiled program for the device, as p4c writes it for bmv2 (JSON). It is loaded, with empty tables, if
    the switch runs another program. Not set: the running program is used.
    """
    instructions: Number16 = 0xE400
    """Instruction bitmap of the INT that the switch puts into packets; the default asks for node id,
    interfaces, hop latency and egress timestamp.
    """
    hop_limit: Annotated[int, Field(ge=1, le=255)] = 8
    """Most hops of this INT."""
    timeout_seconds: Seconds = Field(default=5.0, gt=0, le=60)
    """How long a connection or an answer may take."""

    @field_validator("address")
    @classmethod
    def _is_address(cls, text: str) -> str:
        host_and_port(text, least=1)
        return text

    @model_validator(mode="after")
    def _has_p4info(self) -> P4RuntimeSwitchSettings:
        if (self.program is None) != (self.p4info is None):
            raise ValueError("found one of program and p4info, expected both or none")
        return self

    @property
    def place(self) -> str:
        """The server's address."""
        return self.address


CONTROLLED_KINDS: dict[str, type[ControlledSettings]] = {
    "ebpf": EbpfSwitchSettings,
    "http": HttpSwitchSettings,
    "p4runtime": P4RuntimeSwitchSettings,
}
"""Settings of the kinds."""

NamedSwitches = Annotated[
    dict[TableName, Annotated[SerializeAsAny[ControlledSettings], of_kind(CONTROLLED_KINDS)]],
    Field(max_length=MAX_CONTROLLED),
]
"""Switches by name."""


class WatchRule(WatchSettings):
    """Packets that get INT at the switches that the controller reaches."""

    switches: tuple[TableName, ...] = ()
    """Names of the switches that put it in; empty: all."""
    at: Literal["all", "edge"] = "all"
    """`edge`: of these, only switches with a port that does not lead to another switch, according to
    `postcards.links` and LLDP.
    """


class ControlSettings(Section):
    """What the controller sets on its switches."""

    watch: Annotated[tuple[WatchRule, ...], Field(max_length=1024)] | None = None
    """Watch lists of the switches; not set: the switches keep their own."""
    verify_seconds: Seconds = Field(default=10.0, ge=0.1)
    """Time between two reads of a switch, which detect changes by others and state lost in a restart."""
    retry_seconds: Seconds = Field(default=30.0, ge=0.1)
    """Longest pause before a switch that failed is tried again. The first is 0.5 s, and each is twice as long
    as the one before."""


def check_switches(switches: NamedSwitches, rules: tuple[WatchRule, ...] | None) -> None:
    """Raises ValueError if two switches are one node, or a rule does not fit."""
    seen: dict[int, str] = {}
    for name, switch in switches.items():
        if switch.node in seen:
            raise ValueError(
                f"switches.{name}: found node {switch.node}, which is {seen[switch.node]} already, expected "
                "another one"
            )
        seen[switch.node] = name
    check_rules(switches, rules or ())


def check_rules(switches: NamedSwitches, rules: tuple[WatchRule, ...]) -> None:
    """Raises ValueError if a rule names an unknown switch, or a switch gets more rules than fit."""
    for rule in rules:
        for name in rule.switches:
            if name not in switches:
                raise ValueError(
                    f"control.watch: found switch {name!r}, expected one of {', '.join(switches)}"
                )
    for name in switches:
        count = sum(not rule.switches or name in rule.switches for rule in rules)
        if count > MAX_WATCHES:
            raise ValueError(
                f"control.watch: found {count} rules for {name}, expected {MAX_WATCHES} or fewer"
            )
