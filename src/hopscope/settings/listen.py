"""Listeners: where reports arrive and how they are read."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from ..wire.address import number_of
from .section import Network, NodeIds, Section, is_loopback

PORTS = {"sflow": 6343, "ipfix": 4739, "ipfix+tcp": 4739}
"""Ports of the kinds of listeners that are not for Telemetry Reports."""
_LIMITS = ("allow", "rate_limit", "rate_burst", "rate_ipv6_prefix")
_HOST = ("host", "port", "workers")
_UDP = (*_HOST, "receive_buffer_bytes", "gro", *_LIMITS)
_RING = ("interface", "dialect", "workers", "ring_bytes", "promiscuous")
BY_KIND = {
    "udp": ("dialect", *_UDP),
    "ring": ("port", *_RING, *_LIMITS),
    "xdp": ("interface", "port", "dialect", "ring_bytes", "promiscuous"),
    "mirror": (*_RING, "filter", "output", "keep_offloads"),
    "sflow": ("nodes", *_UDP),
    "ipfix": ("nodes", *_UDP),
    "ipfix+tcp": ("nodes", *_HOST, "allow", "connections"),
}
"""Settings of each kind of listener."""
INTERFACES = ("ring", "xdp", "mirror")
"""Kinds that read an interface."""


class ListenSettings(Section):
    """One listener: where reports arrive and how they are read (`udp://127.0.0.1:32766?workers=2`,
    `ring://eth1?port=32766`, `xdp://eth1?port=32766`, `mirror://eth1`, `sflow://0.0.0.0:6343`,
    `ipfix://0.0.0.0:4739`, `ipfix+tcp://0.0.0.0:4739`).
    """

    kind: Literal["udp", "ring", "xdp", "mirror", "sflow", "ipfix", "ipfix+tcp"] = "udp"
    """`udp`: reports are sent to a port of this machine; `ring`: the same, but read from an interface,
    bypassing the kernel's UDP (Linux, CAP_NET_RAW); `xdp`: the same, but read by an XDP program (Linux, root
    or CAP_BPF with CAP_NET_ADMIN and CAP_PERFMON); `mirror`: all frames of an interface are read, for example
    from a switch's mirror port (Linux, CAP_NET_RAW); `sflow`: agents send sFlow 5; `ipfix`: exporters send
    IPFIX or NetFlow 9; `ipfix+tcp`: exporters connect, and send IPFIX.
    """
    interface: str = ""
    """Ring, XDP and mirror: name of the interface."""
    promiscuous: bool = True
    """Ring, XDP and mirror: also receive frames that are addressed to other machines; by default only a
    mirror does."""
    output: str = ""
    """Sink: interface that the frames are forwarded to, without their INT, IFA or IOAM; empty: they are
    not forwarded."""
    keep_offloads: bool = False
    """Mirror: keep the offloads that merge or segment frames (GRO, LRO, TSO) on; by default they are switched
    off while the interface is read.
    """
    host: str = "127.0.0.1"
    """Address to listen on; anything but loopback opens the collector to the network."""
    port: int = Field(default=32766, ge=0, le=65535)
    """UDP port, or TCP port of `ipfix+tcp`; 0 lets the kernel choose one, except for a ring. sFlow has 6343
    by default, IPFIX 4739.
    """
    workers: int = Field(default=1, ge=1, le=64)
    """Processes that share this port or interface. Reports of one source, and packets of one flow, always
    reach the same process. The reports of several workers meet in one more process, the detector."""
    dialect: str = "spec"
    """Dialect of the reports; `hopscope config dialects` lists the names. `auto`: the first reports determine
    it; UDP beyond loopback then needs `allow`, so that strangers cannot determine it.
    """
    receive_buffer_bytes: int = Field(default=32 * 1024 * 1024, ge=4096)
    """UDP: requested socket buffer; a warning at startup says if the kernel grants less."""
    ring_bytes: int = Field(default=32 * 1024 * 1024, ge=1024 * 1024, le=2**34)
    """Ring, XDP (rounded up to a power of two) and mirror: size of each worker's ring for frames from the
    kernel. A small frame takes 200 bytes. At low rates, a single frame takes a whole block: one of 128 KiB,
    closed after 16 ms, or one of 16 KiB, closed after 1 ms, if frames are forwarded.
    """
    filter: str = ""
    """Mirror: the frames to receive, as an expression such as `udp port 4791` (compiled by libpcap), or as a
    program that `tcpdump -ddd` printed, with commas instead of line breaks; empty: all frames.
    """
    gro: bool = True
    """Receive datagrams that the kernel has merged (UDP_GRO)."""
    allow: tuple[Network, ...] = ()
    """Networks whose datagrams are accepted, such as `192.0.2.0/24`; empty: all."""
    rate_limit: int = Field(default=0, ge=0)
    """Most reports per second from one source; 0: no limit. A datagram counts as many reports as it groups
    (Report 2.0). Throttled datagrams are counted.
    """
    rate_burst: int = Field(default=0, ge=0)
    """Reports that a source may send in a burst above its rate; 0: as many as in 0.1 s at that rate."""
    rate_ipv6_prefix: int = Field(default=64, ge=1, le=128)
    """IPv6: addresses that share this many leading bits are one source for `rate_limit`."""
    connections: int = Field(default=256, ge=1, le=4096)
    """`ipfix+tcp`: most connections of a worker, each with at most 128 KiB of memory. One source address may
    have an eighth of them. Further connections are closed at once.
    """
    nodes: NodeIds = Field(default={})
    """sFlow and IPFIX: node ids of agents and exporters by address, such as `{"192.0.2.7" = 7}`, so that a
    switch that also sends INT is one node. By default, an agent or exporter has the last 32 bits of its
    address.
    """

    @property
    def over_tcp(self) -> bool:
        """Whether senders connect."""
        return self.kind == "ipfix+tcp"

    @property
    def over_udp(self) -> bool:
        """Whether it has UDP sockets of the kernel."""
        return not self.interface and not self.over_tcp

    @model_validator(mode="before")
    @staticmethod
    def _usual_values(given: object) -> object:
        if isinstance(given, dict) and given.get("kind") in PORTS:
            return {"port": PORTS[given["kind"]], **given}
        if isinstance(given, dict) and given.get("kind") in ("ring", "xdp"):
            return {"promiscuous": False, **given}
        return given

    @property
    def node_ids(self) -> dict[int, int]:
        """`nodes` by address as a number, IPv4 as ::ffff:a.b.c.d."""
        return {number_of(text): node for text, node in self.nodes.items()}

    @model_validator(mode="after")
    def _of_its_kind(self) -> ListenSettings:
        """What this kind does not have is not set: it would do nothing."""
        for name, field in ListenSettings.model_fields.items():
            if name not in ("kind", *BY_KIND[self.kind]) and getattr(self, name) != field.get_default():
                *others, last = (kind for kind, names in BY_KIND.items() if name in names)
                kinds = f"{', '.join(others)} or {last}" if others else last
                raise ValueError(f"found {name} with kind {self.kind}, expected kind {kinds}")
        return self

    @model_validator(mode="after")
    def _safe(self) -> ListenSettings:
        opened = self.kind in ("ring", "xdp") or (self.kind == "udp" and not is_loopback(self.host))
        if self.dialect == "auto" and not self.allow and opened:
            where = f" on {self.host}" if self.kind == "udp" else ""
            raise ValueError(
                f"found dialect auto{where} without allow, so that strangers would choose the dialect: name "
                "the dialect, or allow the networks of your switches"
            )
        if self.kind not in INTERFACES:
            return self
        if not 1 <= len(self.interface) <= 15 or set(self.interface) & set("/: \t\n"):
            raise ValueError(f"found interface {self.interface!r}, expected a name such as eth1")
        if self.kind != "mirror" and not self.port:
            raise ValueError(f"found port 0 with kind {self.kind}, expected a port from 1 to 65535")
        if self.output == self.interface:
            raise ValueError(f"found output {self.output!r}, the interface itself, expected another one")
        return self
