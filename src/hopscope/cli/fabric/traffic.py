"""`hopscope fabric traffic`: its options, sending, and the rows about received packets."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ...base.errors import HopscopeError
from ...base.plural import plural
from ..options.declare import Options, argument, option
from ..output.running import interruptible, until_stopped

if TYPE_CHECKING:
    from ...testbed.fabric import FabricPlan, Host

Rows = list[dict[str, Any]]
_RATE, _SIZE, _SECONDS, _SEED = "5M", 1000, 10.0, 1


@dataclass(frozen=True)
class TrafficRequest(Options):
    """Traffic between hosts."""

    kind: Literal["udp", "tcp", "ping"] = argument(
        "KIND", "udp: datagrams to random hosts; tcp: iperf3; ping: one host to all others.", "udp"
    )
    rate: str | None = option(
        "--rate RATE", "udp: rate of each sender, bit/s of IP packets.", show_default=_RATE
    )
    size: int | None = option("--size BYTES", "udp: bytes of an IP packet.", show_default=str(_SIZE))
    seconds: float | None = option(
        "--seconds -s S", "udp, tcp: duration; udp: 0 until Ctrl-C.", min=0, show_default=f"{_SECONDS:g}"
    )
    source: list[str] | None = option(
        "--from HOST",
        "Sender; udp: repeatable, `all`: every host.",
        show_default="the first and the last host",
    )
    ipv6: bool = option("--ipv6 -6", "Use IPv6.", False)
    seed: int | None = option("--seed N", "udp: seed of the random hosts.", show_default=str(_SEED))

    @property
    def version(self) -> int:
        """IP version."""
        return 6 if self.ipv6 else 4

    def check(self) -> None:
        """Raise HopscopeError for options that this kind of traffic does not support."""
        only: dict[str, object] = {"--rate": self.rate, "--size": self.size, "--seed": self.seed}
        if self.kind == "ping":
            only["--seconds"] = self.seconds
        given = [flag for flag, value in only.items() if value is not None]
        if self.kind != "udp" and given:
            raise HopscopeError(f"{', '.join(given)}: not supported by {self.kind}")
        if self.kind != "udp" and self.source and (len(self.source) > 1 or "all" in self.source):
            raise HopscopeError(f"--from: found several hosts, expected one for {self.kind}")
        if self.kind == "tcp" and self.seconds == 0:
            raise HopscopeError("--seconds 0: expected more than 0 for tcp; only udp runs until Ctrl-C")

    def send(self, parts: FabricPlan) -> tuple[Rows, bool]:
        """Send the traffic. Returns rows to print, and whether packets were lost or rejected, or none sent.

        Raises HopscopeError.
        """
        senders = _hosts(parts, self.source)
        if self.kind == "udp":
            return self._datagrams(parts, senders)
        with interruptible():  # its processes end first
            if self.kind == "tcp":
                return self._stream(parts, senders[0]), False
            return self._echoes(parts, senders[0])

    def _datagrams(self, parts: FabricPlan, senders: list[Host]) -> tuple[Rows, bool]:
        from ...base.quantities import bit_rate
        from ...testbed.traffic import Datagrams, send_datagrams

        size = _SIZE if self.size is None else self.size
        rate = bit_rate("--rate", self.rate or _RATE)
        what = Datagrams(rate, size, self.version, _SEED if self.seed is None else self.seed)
        seconds = _SECONDS if self.seconds is None else self.seconds
        with until_stopped() as stop:
            results = send_datagrams(parts, senders, what, seconds, stop)
        rows: Rows = [
            {
                "host": host.host,
                "sent": host.sent,
                "Mbit/s": round(host.sent * size * 8 / host.seconds / 1e6, 2) if host.seconds else 0.0,
                "rejected": host.rejected,
                "received": host.received,
            }
            for host in results
        ]
        sent, received = sum(host.sent for host in results), sum(host.received for host in results)
        rejected = sum(host.rejected for host in results)
        print(
            f"hopscope: {plural(sent, 'packet')} sent, {received:,} received, {sent - received:,} lost, "
            f"{rejected:,} rejected by the sending hosts",
            file=sys.stderr,
        )
        return rows, received < sent or rejected > 0 or not sent

    def _stream(self, parts: FabricPlan, client: Host) -> Rows:
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

    def _echoes(self, parts: FabricPlan, client: Host) -> tuple[Rows, bool]:
        from ...testbed.traffic import ping

        rows: Rows = []
        lost = False
        for server in parts.hosts:
            if server is not client:
                answers, mean = ping(client, server, version=self.version)
                lost |= answers < 3
                ends = {"from": client.name, "to": server.name}
                rows.append({**ends, "answers": f"{answers}/3", "ms": round(mean * 1e3, 2)})
        return rows, lost


def _hosts(parts: FabricPlan, names: list[str] | None) -> list[Host]:
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
