"""A fabric of network namespaces and veth pairs: planning, building and removing it.

Every host has its own namespace; all switch ports are in another namespace, in which the switch process reads
and writes frames. Hosts have static neighbour entries, so that they send only the frames of their programs.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from ..base.errors import HopscopeError
from ..capture.ring.offload import disable_send_offloads
from ..fabric.topology import Topology
from ..wire.label.layout import LABEL_OPTION, LABEL_STATE
from . import namespaces
from .namespaces import ip

HOST_MTU = 1500
"""IP bytes of the longest packet that hosts send."""
HOST_INTERFACE = "eth0"
RING_BYTES, SLOTS = 1 << 21, 512
"""Bytes of a switch port's receive ring, and slots of its transmit ring, each of `slot_bytes`."""
MAX_RING_BYTES = 768 << 20
"""Total for all switch ports, held in kernel memory: 256 ports with slots of 2 KiB."""
_SLOT_MARGIN = 128
"""Bytes of a slot in addition to the packet; more than the headers of the slot and of Ethernet."""
_PREFIX = "hopscope"
_MAX_INTERFACE_NAME = 15
_IPV4_NETWORK = 10
"""First byte of the hosts' IPv4 addresses, whose prefix has 8 bits."""
_IPV6_NETWORK = int(ipaddress.IPv6Address("fd00::"))


class TestbedError(HopscopeError):
    """A fabric cannot be created, found or used."""

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
    """Row in `topology.ports`."""
    interface: str
    host: int
    """Host at the other end; -1: a switch."""


@dataclass(frozen=True, slots=True)
class FabricPlan:
    """The parts of a fabric."""

    name: str
    topology: Topology
    hosts: tuple[Host, ...]
    ports: tuple[SwitchPort, ...]
    """Sorted by switch and number, as the rows of the registers."""
    links: tuple[tuple[int, int], ...]
    """Linked ports (rows of `ports`): each link between switches once."""
    inner_mtu: int
    """IP bytes of the longest packet between switches."""

    @property
    def switches(self) -> str:
        """Namespace of all switch ports."""
        return f"{prefix(self.name)}net"


def prefix(name: str) -> str:
    """Prefix of the fabric's namespaces."""
    return f"{_PREFIX}.{name}."


def plan(topology: Topology, name: str, *, max_hop: int, inner_mtu: int | None = None) -> FabricPlan:
    """The parts of a fabric.

    `inner_mtu` None: the hosts' MTU plus room for the labels of `max_hop` switches. Raises TestbedError if it
    is too large for this machine.
    """
    table = topology.ports
    for host, address in zip(topology.host_names, topology.host_address.tolist(), strict=True):
        if address >> 24 != _IPV4_NETWORK:
            raise TestbedError(
                f"{topology.name}: host {host} has the address {ipaddress.IPv4Address(address)}, expected "
                "one of 10.0.0.0/8, the network of the fabric"
            )
    at = [int(row) for row in (table["switch"] >= 0).nonzero()[0]]
    mtu = inner_mtu or HOST_MTU + LABEL_OPTION.size + max_hop * LABEL_STATE.size
    max_ports = MAX_RING_BYTES // (RING_BYTES + SLOTS * slot_bytes(mtu))
    if len(at) > max_ports:
        raise TestbedError(
            f"{topology.name}: found {len(at)} switch ports, expected at most {max_ports} on one machine, "
            f"with {mtu} bytes between switches"
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
    return FabricPlan(name, topology, hosts, ports, links, mtu)


def slot_bytes(mtu: int) -> int:
    """Bytes of a slot of a transmit ring for packets of this MTU: a power of two."""
    return max(2048, 1 << (mtu + _SLOT_MARGIN - 1).bit_length())


def _interface(topology: Topology, row: int) -> str:
    """Name of a switch port's interface, such as `leaf-0.3`: the switch's name and the port's number.

    With a name that is too long it is `switch5.3`, and with such an id `port17`.
    """
    node, number = int(topology.ports[row]["node_id"]), int(topology.ports[row]["number"])
    named = f"{topology.switch_name(node)}.{number}"
    short = f"switch{node}.{number}"
    return next((name for name in (named, short) if len(name) <= _MAX_INTERFACE_NAME), f"port{row}")


def build(parts: FabricPlan) -> None:
    """Create namespaces, links, addresses and neighbours. Raises NamespaceError; `remove` cleans up a partial
    fabric.
    """
    net = parts.switches
    ip(f"netns add {name}" for name in (net, *(host.namespace for host in parts.hosts)))
    namespaces.inside(
        net, lambda: _set(("ipv6/conf/all/disable_ipv6", 1), ("ipv6/conf/default/disable_ipv6", 1))
    )
    near = {port.host: port.interface for port in parts.ports if port.host >= 0}
    inner = []
    for left, right in parts.links:
        first, second = parts.ports[left].interface, parts.ports[right].interface
        inner.append(
            f"link add {first} mtu {parts.inner_mtu} type veth peer name {second} mtu {parts.inner_mtu}"
        )
    inner += [f"link set {port.interface} up" for port in parts.ports if port.host < 0]
    ip(inner, net)
    for number, host in enumerate(parts.hosts):
        _host(parts, host, near[number])
    ip((f"link set {interface} up" for interface in near.values()), net)
    namespaces.inside(net, lambda: _as_cables([port.interface for port in parts.ports]))


def _host(parts: FabricPlan, host: Host, port: str) -> None:
    """Configure a host's namespace: interface, addresses and neighbours."""

    def quiet() -> None:
        # otherwise the host sends router solicitations and group reports
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
        disable_send_offloads(interface)


def _set(*values: tuple[str, int]) -> None:
    """Set network parameters of the thread's namespace, if the kernel has them."""
    for key, value in values:
        path = Path("/proc/sys/net", key)
        if path.exists():
            path.write_text(f"{value}\n")


def remove(name: str) -> int:
    """Delete all namespaces of a fabric and end their processes; returns the number of namespaces.

    Raises NamespaceError.
    """
    names = namespaces.found(prefix(name))
    for namespace in names:
        namespaces.delete(namespace)
    return len(names)


def next_ports(parts: FabricPlan, down: Collection[int] = ()) -> dict[tuple[int, int], list[int]]:
    """Ports (rows of `ports`) on shortest paths, by (node id, host): ECMP chooses one of them.

    `down`: ports whose link is down. A switch without a path to a host has no entry for it.
    """
    table, failed = parts.topology.ports, [parts.ports[row].row for row in down]
    inner = [
        (row, int(table[port.row]["switch"]), int(table[port.row]["peer_switch"]))
        for row, port in enumerate(parts.ports)
        if port.host < 0 and row not in down
    ]
    outer = {port.host: row for row, port in enumerate(parts.ports) if port.host >= 0 and row not in down}
    found: dict[tuple[int, int], list[int]] = {}
    for host, edge in enumerate(parts.topology.host_switch.tolist()):
        if host not in outer:
            continue
        found[parts.ports[outer[host]].node, host] = [outer[host]]
        away = parts.topology.links_to(edge, failed).tolist()
        for row, at, peer in inner:
            if away[peer] >= 0 and away[at] == away[peer] + 1:
                found.setdefault((parts.ports[row].node, host), []).append(row)
    return found


def pairs_without_path(parts: FabricPlan, down: Collection[int]) -> int:
    """Pairs of hosts that cannot reach each other while the links of these ports are down."""
    routes = next_ports(parts, down)
    at = {port.host: port.node for port in parts.ports if port.host >= 0}
    pairs = combinations(sorted(at), 2)
    return sum((at[one], other) not in routes or (at[other], one) not in routes for one, other in pairs)


def longest_path(parts: FabricPlan, down: Collection[int] = ()) -> int:
    """Maximum switches on a path between hosts that have one; `down`: ports whose link is down."""
    edges, failed = np.unique(parts.topology.host_switch), [parts.ports[row].row for row in down]
    return 1 + max(int(parts.topology.links_to(int(edge), failed)[edges].max()) for edge in edges)
