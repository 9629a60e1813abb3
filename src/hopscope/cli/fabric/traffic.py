"""What `hopscope fabric traffic` is asked for, and what it shows of it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ..running import interruptible, until_stopped

if TYPE_CHECKING:
    from ...testbed.fabric import Host, Plan

Rows = list[dict[str, Any]]
_RATE, _SIZE, _SECONDS, _SEED = "5M", 1000, 10.0, 1


@dataclass(frozen=True, slots=True)
class Asked:
    """Traffic as the flags say; None: not given."""

    kind: Literal["udp", "tcp", "ping"]
    rate: str | None
    size: int | None
    seconds: float | None
    source: list[str] | None
    version: int
    seed: int | None

    def check(self) -> None:
        """Raise HopscopeError for a flag that this kind of traffic has no use for."""
        from ...base.errors import HopscopeError

        only: dict[str, object] = {"--rate": self.rate, "--size": self.size, "--seed": self.seed}
        if self.kind == "ping":
            only["--seconds"] = self.seconds
        given = [flag for flag, value in only.items() if value is not None]
        if self.kind != "udp" and given:
            raise HopscopeError(f"{', '.join(given)}: found with {self.kind}, which has no use for it")
        if self.kind != "udp" and self.source and (len(self.source) > 1 or "all" in self.source):
            raise HopscopeError(f"--from: found several hosts, expected one with {self.kind}")
        if self.kind == "tcp" and self.seconds == 0:
            raise HopscopeError("--seconds 0: expected more with tcp; udp goes on until Ctrl-C")

    def send(self, parts: Plan) -> tuple[Rows, bool]:
        """Send it; rows to print, and whether something was lost, refused or not sent at all.

        Raises HopscopeError.
        """
        senders = _hosts(parts, self.source)
        if self.kind == "udp":
            return self._datagrams(parts, senders)
        with interruptible():  # what was started for it ends first
            if self.kind == "tcp":
                return self._stream(parts, senders[0]), False
            return self._echoes(parts, senders[0])

    def _datagrams(self, parts: Plan, senders: list[Host]) -> tuple[Rows, bool]:
        from ...testbed.traffic import Datagrams, send_datagrams
        from ..quantities import bit_rate

        size = _SIZE if self.size is None else self.size
        rate = bit_rate("--rate", self.rate or _RATE)
        what = Datagrams(rate, size, self.version, _SEED if self.seed is None else self.seed)
        seconds = _SECONDS if self.seconds is None else self.seconds
        with until_stopped() as stop:
            told = send_datagrams(parts, senders, what, seconds, stop)
        rows: Rows = [
            {
                "host": one.host,
                "sent": one.sent,
                "Mbit/s": round(one.sent * size * 8 / one.seconds / 1e6, 2) if one.seconds else 0.0,
                "refused": one.refused,
                "received": one.received,
            }
            for one in told
        ]
        sent, received = sum(one.sent for one in told), sum(one.received for one in told)
        refused = sum(one.refused for one in told)
        print(
            f"hopscope: {sent:,} packets sent, {received:,} received, {sent - received:,} lost, "
            f"{refused:,} refused by their own hosts",
            file=sys.stderr,
        )
        return rows, received < sent or refused > 0 or not sent

    def _stream(self, parts: Plan, client: Host) -> Rows:
        from ...testbed.traffic import iperf

        server = next(host for host in reversed(parts.hosts) if host is not client)
        end = iperf(client, server, version=self.version, seconds=self.seconds or _SECONDS)
        return [
            {
                "from": client.name,
                "to": server.name,
                "bytes": end["sum_received"]["bytes"],
                "Mbit/s": round(end["sum_received"]["bits_per_second"] / 1e6, 1),
                "retransmits": end["sum_sent"].get("retransmits", 0),
            }
        ]

    def _echoes(self, parts: Plan, client: Host) -> tuple[Rows, bool]:
        from ...testbed.traffic import ping

        rows: Rows = []
        lost = False
        for server in parts.hosts:
            if server is not client:
                answers, mean = ping(client, server, version=self.version)
                lost |= answers < 3
                told = {"from": client.name, "to": server.name}
                rows.append({**told, "answers": f"{answers}/3", "ms": round(mean * 1e3, 2)})
        return rows, lost


def _hosts(parts: Plan, names: list[str] | None) -> list[Host]:
    """The hosts of these names. Raises HopscopeError."""
    from ...testbed.fabric import TestbedError

    known = {host.name: host for host in parts.hosts}
    if names is None:
        return [parts.hosts[0], parts.hosts[-1]]
    if "all" in names:
        return list(parts.hosts)
    for name in names:
        if name not in known:
            raise TestbedError(f"--from {name}: expected a host, one of {', '.join(list(known)[:8])} …")
    return [known[name] for name in names]
