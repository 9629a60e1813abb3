"""A router in namespaces that spreads switches over collectors by ECMP, with a resilient group of next hops.

Linux hashes source and destination address to a bucket, and a bucket has a next hop (Linux
Documentation/networking/nexthop-group-resilient.rst). When a next hop leaves the group, only its own buckets
get another next hop.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from .namespaces import delete, found, ip, require_root, run

SERVICE = "192.0.2.1"
"""Address that all collectors have (TEST-NET-1); the fabric sends to it."""
SOURCES = "198.19.0.0/16"
"""Addresses from which the fabric may send (RFC 2544, for benchmarks, as are the following addresses)."""
ROUTER, FABRIC = "198.18.0.1", "198.18.0.2"
MTU = 9000
GROUP = 100
BUCKETS = 256


def clear(prefix: str, alive: Collection[str]) -> list[str]:
    """Delete the namespaces PREFIX-KEY-… whose key is not in `alive`; returns their names."""
    gone = [name for name in found(f"{prefix}-") if name[len(prefix) + 1 :].partition("-")[0] not in alive]
    for name in gone:
        delete(name)
    return gone


class EcmpNetwork:
    """Namespaces NAME-router, NAME-fabric and one for each member. Raises NamespaceError.

    Member `i` (from 0) has the address 198.18.(i+1).2, and the router 198.18.(i+1).1 on the link to it; all
    members have SERVICE on loopback.
    """

    def __init__(self, name: str, members: Sequence[str]) -> None:
        self.name, self.members = name, list(members)
        self.using: frozenset[str] = frozenset()
        """Members that have a next hop in the group."""
        self._down: set[str] = set()

    def full(self, part: str) -> str:
        """Name of the namespace of a member, of `router` or of `fabric`."""
        return f"{self.name}-{part}"

    def address(self, member: str) -> str:
        """Address of a member."""
        return f"198.18.{self._number(member)}.2"

    def _number(self, member: str) -> int:
        return self.members.index(member) + 1

    def create(self) -> None:
        """Create everything; no member gets reports yet."""
        require_root()
        for part in ("router", "fabric"):
            self._add(part)
        # only addresses, so that a switch keeps its bucket whatever port it uses
        policy = "net.ipv4.fib_multipath_hash_policy=0"
        run("ip", "netns", "exec", self.full("router"), "sysctl", "-qw", "net.ipv4.ip_forward=1", policy)
        self._pair("fabric", ROUTER, FABRIC)
        ip([f"route add local {SOURCES} dev lo"], self.full("fabric"))
        ip([f"route add {SOURCES} via {FABRIC}"], self.full("router"))
        for member in self.members:
            self._join(member)

    def add(self, member: str) -> None:
        """Add a member; its next hop is not used yet."""
        self.members.append(member)
        self._join(member)

    def _join(self, member: str) -> None:
        self._add(member)
        number = self._number(member)
        self._pair(member, f"198.18.{number}.1", f"198.18.{number}.2")
        ip([f"address add {SERVICE}/32 dev lo"], self.full(member))
        ip([f"nexthop add id {number} via 198.18.{number}.2 dev {member}"], self.full("router"))

    def _add(self, part: str) -> None:
        run("ip", "netns", "add", self.full(part))
        ip(["link set lo up"], self.full(part))

    def _pair(self, part: str, near: str, far: str) -> None:
        """Create a link from the router's interface `part` to `eth` of a namespace, which becomes its default
        route.
        """
        inside = self.full(part)
        ip(
            [
                f"link add {part} mtu {MTU} type veth peer name eth mtu {MTU} netns {inside}",
                f"address add {near}/24 dev {part}",
                f"link set {part} up",
            ],
            self.full("router"),
        )
        ip([f"address add {far}/24 dev eth", "link set eth up", f"route add default via {near}"], inside)

    def use(self, members: Collection[str]) -> None:
        """Send to these members, except those whose link is down. The buckets of all other members move to
        them; new members get their share at once.
        """
        usable = frozenset(members) - self._down
        router = self.full("router")
        hops = "/".join(str(self._number(member)) for member in self.members if member in usable)
        group = f"nexthop replace id {GROUP} group {hops} type resilient buckets {BUCKETS}"
        if not usable:
            if self.using:
                ip([f"route del {SERVICE}/32", f"nexthop del id {GROUP}"], router)
        else:
            lines = [f"{group} idle_timer 0 unbalanced_timer 0"]
            if not self.using:
                lines.append(f"route add {SERVICE}/32 nhid {GROUP}")
            ip(lines, router)
        self.using = usable

    def buckets(self) -> list[str]:
        """The member of each bucket, according to Linux."""
        if not self.using:
            return []
        words = ("ip", "-n", self.full("router"), "-json", "nexthop", "bucket", "show", "id", str(GROUP))
        rows = (row["bucket"] for row in json.loads(run(*words)))
        return [self.members[row["nhid"] - 1] for row in sorted(rows, key=lambda row: int(row["index"]))]

    def link(self, member: str, up: bool) -> None:
        """Set the router's link to a member up or down; if it goes down, Linux deletes its next hop."""
        router, number = self.full("router"), self._number(member)
        if not up:
            ip([f"link set {member} down"], router)
            self.using -= {member}
            self._down.add(member)
            return
        ip([f"link set {member} up", f"nexthop add id {number} via 198.18.{number}.2 dev {member}"], router)
        self._down.discard(member)

    def remove(self) -> None:
        """Delete all namespaces, and end the processes in them."""
        for name in found(f"{self.name}-"):
            delete(name)
