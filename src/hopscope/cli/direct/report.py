"""Send a simulated network's DTA reports to a translator."""

from __future__ import annotations

import ipaddress
import secrets
import sys
from typing import TYPE_CHECKING

from ...base.errors import HopscopeError

if TYPE_CHECKING:
    from ...direct.monitors.monitor import Reports

BATCH = 1024
"""Reports per batch."""
EXAMPLES = 3


def send_reports(monitor: str, to: str, topology: str, connections: int, seed: int, rate: float) -> None:
    """Simulate, observe and report; prints the reports sent and keys to query on stderr. Raises
    HopscopeError.
    """
    from ...capture.udp.sender import UdpSender
    from ...direct.monitors.registry import make_monitors
    from ...direct.reporter import Reporter
    from ...fabric.tcp import TcpModel, TcpSimulation
    from ...fabric.topology import parse_topology
    from ...settings.section import host_and_port
    from ...wire.dta.codec import Form

    (source,) = make_monitors([monitor]).values()
    try:
        host, port = host_and_port(to, least=1)
    except ValueError as error:
        raise HopscopeError(f"--to: {error}, as 127.0.0.1:40040") from None
    network = TcpSimulation(parse_topology(topology), TcpModel(connections=connections), seed=seed)
    print(f"simulating {connections:,} TCP connections in a {topology} …", file=sys.stderr)
    network.run()
    observations = network.observations()
    parts = [source.observe(observations), source.flush()]
    reporter = Reporter(Form.SIZED)
    sender = UdpSender(host, port, rate=rate, source=_own_address(host))
    sent = 0
    for part in parts:
        for at in range(0, len(part), BATCH):
            sent += sender.send(reporter.send(part.records[at : at + BATCH], part.arena))
    lost = f"; port unreachable: at least {sender.unreachable:,} datagrams" if sender.unreachable else ""
    print(
        f"{len(observations):,} observations of packets at switches, {sent:,} reports sent{lost}",
        file=sys.stderr,
    )
    for key in _examples(parts):
        print(f"try: hopscope direct query {monitor} {key}", file=sys.stderr)


def _own_address(host: str) -> str | None:
    """A random loopback address, so each run acts as a new switch: a restarted numbering would lose its first
    report.
    """
    if not host.startswith("127."):
        return None
    return str(ipaddress.IPv4Address((127 << 24) + (1 << 16) + secrets.randbelow((1 << 24) - (2 << 16))))


def _examples(parts: list[Reports]) -> list[str]:
    """Some reported keys, or lists for Append."""
    from ...direct.stores.keys import show_key
    from ...wire.dta.codec import Opcode

    shown: dict[str, None] = {}
    for part in parts:
        for row in part.records:
            if len(shown) == EXAMPLES:
                break
            at = int(row["key_at"])
            key = part.arena[at : at + int(row["key_bytes"])].tobytes()
            shown[str(row["list"]) if row["opcode"] == Opcode.APPEND else show_key(key)] = None
    return list(shown)
