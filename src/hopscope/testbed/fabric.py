"""A fabric as network namespaces and veth pairs: which there are, made and deleted.

Every host has a namespace of its own; all ports of all switches are in one more, where the switch process
reads and writes frames.  A host knows the addresses of the others by heart (static neighbours), so that its
frames are nothing but what its programs send.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..base.errors import HopscopeError
from ..capture.ring.offload import as_a_cable
from ..fabric.topology import Topology
from ..wire.layout import LABEL_OPTION, LABEL_STATE
from . import namespaces
from .namespaces import ip

HOST_MTU = 1500
"""IP bytes of the longest packet that hosts send."""
HOST_INTERFACE = "eth0"
RING_BYTES, SLOTS = 1 << 21, 512
"""Bytes of a switch port's receive ring, and slots of its transmit ring, each of `slot_bytes`."""
MOST_RING_BYTES = 768 << 20
"""Of all switch ports, which the kernel holds in memory: 256 ports with slots of 2 KiB."""
_SLOT_MARGIN = 128
"""More than the headers of a slot and of Ethernet."""
_PREFIX = "hopscope"
_LONGEST_INTERFACE = 15
_IPV6_NETWORK = int(ipaddress.IPv6Address("fd00::"))


class TestbedError(HopscopeError):
    """A fabric that cannot be made, found or used: which, and why."""

    __test__ = False


@dataclass(frozen=True, slots=True)
class Host:
    """A host: its namespace, and the addresses of its only interface."""

    name: str
    namespace: str
    ipv4: str
    ipv6: str
    mac: str


@dataclass(frozen=True, slots=True)
class SwitchPort:
    """A port of a switch: an interface in the switches' namespace."""

    node: int
    number: int
    row: int
    """In `topology.ports`."""
    interface: str
    host: int
    """Host at the other end; -1: a switch."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a fabric is made of."""

    name: str
    topology: Topology
    hosts: tuple[Host, ...]
    ports: tuple[SwitchPort, ...]
    """By switch and number, as the rows of the registers."""
    links: tuple[tuple[int, int], ...]
    """Ports (rows of `ports`) that are joined: each link between switches once."""
    inner_mtu: int
    """IP bytes of the longest packet between switches."""

    @property
    def switches(self) -> str:
        """Namespace of all switch ports."""
        return f"{prefix(self.name)}net"


def prefix(name: str) -> str:
    """How the namespaces of a fabric of this name begin."""
    return f"{_PREFIX}.{name}."


def plan(topology: Topology, name: str, *, max_hop: int, inner_mtu: int | None = None) -> Plan:
    """The parts of a fabric. `inner_mtu` None: that of hosts, and room for labels of `max_hop` switches.

    Raises TestbedError for one that is too large for this machine.
    """
    table = topology.ports
    at = [int(row) for row in (table["switch"] >= 0).nonzero()[0]]
    mtu = inner_mtu or HOST_MTU + LABEL_OPTION.size + max_hop * LABEL_STATE.size
    most = MOST_RING_BYTES // (RING_BYTES + SLOTS * slot_bytes(mtu))
    if len(at) > most:
        raise TestbedError(
            f"{topology.name}: found {len(at)} switch ports, expected at most {most} on one machine, with "
            f"{mtu} bytes between switches"
        )
    at.sort(key=lambda row: (int(table[row]["node_id"]), int(table[row]["number"])))
    ports = tuple(
        SwitchPort(
            int(table[row]["node_id"]), int(table[row]["number"]), row, _interface(topology, row),
            int(table[row]["peer_host"]),
        )
        for row in at
    )  # fmt: skip
    place = {row: index for index, row in enumerate(at)}
    links = tuple(
        (place[row], place[int(table[row]["reverse"])])
        for row in at
        if table[row]["peer_switch"] >= 0 and row < table[row]["reverse"]
    )
    hosts = tuple(
        Host(
            host,
            f"{prefix(name)}{host}",
            str(ipaddress.IPv4Address(address)),
            str(ipaddress.IPv6Address(_IPV6_NETWORK | address)),
            "02:00:" + ":".join(f"{byte:02x}" for byte in address.to_bytes(4, "big")),
        )
        for host, address in zip(topology.host_names, topology.host_address.tolist(), strict=True)
    )
    return Plan(name, topology, hosts, ports, links, mtu)


def slot_bytes(mtu: int) -> int:
    """Bytes of a slot of a transmit ring for packets of this MTU: a power of two."""
    return max(2048, 1 << (mtu + _SLOT_MARGIN - 1).bit_length())


def _interface(topology: Topology, row: int) -> str:
    """Name of a switch port's interface, as `leaf-0.3`: the port's number behind the switch's name."""
    node, number = int(topology.ports[row]["node_id"]), int(topology.ports[row]["number"])
    named = f"{topology.switch_name(node)}.{number}"
    return named if len(named) <= _LONGEST_INTERFACE else f"switch{node}.{number}"


def build(parts: Plan) -> None:
    """Make namespaces, links, addresses and neighbours. Raises NamespaceError; `remove` takes half away."""
    net = parts.switches
    ip(f"netns add {name}" for name in (net, *(host.namespace for host in parts.hosts)))
    namespaces.inside(
        net, lambda: _set(("ipv6/conf/all/disable_ipv6", 1), ("ipv6/conf/default/disable_ipv6", 1))
    )
    near = {port.host: port.interface for port in parts.ports if port.host >= 0}
    inner = []
    for one, other in parts.links:
        first, second = parts.ports[one].interface, parts.ports[other].interface
        inner.append(
            f"link add {first} mtu {parts.inner_mtu} type veth peer name {second} mtu {parts.inner_mtu}"
        )
    inner += [f"link set {port.interface} up" for port in parts.ports if port.host < 0]
    ip(inner, net)
    for number, host in enumerate(parts.hosts):
        _host(parts, host, near[number])
    ip((f"link set {interface} up" for interface in near.values()), net)
    namespaces.inside(net, lambda: _as_cables([port.interface for port in parts.ports]))


def _host(parts: Plan, host: Host, port: str) -> None:
    """A host's namespace: its interface, addresses, and the neighbours that it knows."""

    def quiet() -> None:
        # without them it asks for routers, and tells groups that it joined: frames of no program
        _set(("ipv6/conf/default/accept_ra", 0), ("ipv6/conf/default/router_solicitations", 0))
        _set(("ipv6/conf/default/addr_gen_mode", 1), ("ipv6/conf/default/dad_transmits", 0))

    namespaces.inside(host.namespace, quiet)
    lines = [
        f"link add {HOST_INTERFACE} address {host.mac} mtu {HOST_MTU} type veth"
        f" peer name {port} mtu {HOST_MTU} netns {parts.switches}",
        "link set lo up",
        f"link set {HOST_INTERFACE} up",
        f"address add {host.ipv4}/8 dev {HOST_INTERFACE}",
        f"address add {host.ipv6}/64 dev {HOST_INTERFACE} nodad",
    ]
    lines += [
        f"neighbour add {address} lladdr {other.mac} nud permanent dev {HOST_INTERFACE}"
        for other in parts.hosts
        if other is not host
        for address in (other.ipv4, other.ipv6)
    ]
    ip(lines, host.namespace)
    namespaces.inside(host.namespace, lambda: _as_cables([HOST_INTERFACE]))


def _as_cables(interfaces: Iterable[str]) -> None:
    for interface in interfaces:
        as_a_cable(interface)


def _set(*values: tuple[str, int]) -> None:
    """Set network parameters of the thread's namespace, where this kernel has them."""
    for key, value in values:
        path = Path("/proc/sys/net", key)
        if path.exists():
            path.write_text(f"{value}\n")


def remove(name: str) -> int:
    """Delete all namespaces of a fabric of this name, and end what runs in them; how many.

    Raises NamespaceError.
    """
    names = namespaces.found(prefix(name))
    for one in names:
        namespaces.delete(one)
    return len(names)


def next_ports(parts: Plan) -> dict[tuple[int, int], list[int]]:
    """Ports (rows of `ports`) on shortest ways, by (node id, host): ECMP chooses one of them."""
    table = parts.topology.ports
    found: dict[tuple[int, int], list[int]] = {}
    for host, edge in enumerate(parts.topology.host_switch.tolist()):
        away = parts.topology.links_to(edge)
        for row, port in enumerate(parts.ports):
            peer, at = int(table[port.row]["peer_switch"]), int(table[port.row]["switch"])
            if port.host == host or (peer >= 0 and away[peer] == away[at] - 1):
                found.setdefault((port.node, host), []).append(row)
    return found


def longest_way(parts: Plan) -> int:
    """Most switches on a way from host to host."""
    edges = np.unique(parts.topology.host_switch)
    return max(int(parts.topology.links_to(int(edge))[edges].max()) + 1 for edge in edges)
