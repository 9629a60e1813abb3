"""Send a simulated network's DTA reports to a translator."""

from __future__ import annotations

import ipaddress
import secrets
import sys
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np

from ...base.errors import HopscopeError
from ...base.plural import plural
from ..options.settings import EXPECTED_KEYS

if TYPE_CHECKING:
    from ...direct.monitors.monitor import Monitor, Reports

BATCH = 1024
"""Reports per batch."""
EXAMPLES = 3
CANDIDATES = 10_000
"""Approximate number of reports whose keys may become examples."""


def send_reports(
    monitor: str,
    to: str,
    topology: str,
    connections: int,
    seed: int,
    rate: float,
    faults: Sequence[str] = (),
) -> None:
    """Simulate a network, observe it and send reports; prints their number and queries to try on stderr.
    Raises HopscopeError.
    """
    from ...capture.udp.sender import UdpSender
    from ...direct.monitors.registry import make_monitors
    from ...direct.reporter import Reporter
    from ...fabric.faults import parse_fault
    from ...fabric.tcp import TcpModel, TcpSimulation
    from ...fabric.topology import parse_topology
    from ...settings.section import host_and_port
    from ...wire.dta.forms import Form

    (source,) = make_monitors([monitor]).values()
    try:
        host, port = host_and_port(to, least=1)
    except ValueError as error:
        raise HopscopeError(f"--to: {error}, such as 127.0.0.1:40040") from None
    fabric = parse_topology(topology)
    broken = tuple(parse_fault(fabric, text) for text in faults)
    network = TcpSimulation(fabric, TcpModel(connections=connections), faults=broken, seed=seed)
    print(f"simulating {connections:,} TCP connections in a {topology} …", file=sys.stderr)
    network.run()
    observations = network.observations()
    parts = [source.observe(observations), source.flush()]
    reporter = Reporter(Form.SIZED)
    sent = 0
    found = examples(source, parts, [switch.node_id for switch in fabric.switches])
    with closing(UdpSender(host, port, rate=rate, source=_own_address(host))) as sender:
        for part in parts:
            if source.first_list:
                part.number_lists_from(source.first_list)
            for at in range(0, len(part), BATCH):
                sent += sender.send(reporter.send(part.records[at : at + BATCH], part.arena))
    refused = sender.unreachable
    lost = f"; port unreachable: at least {plural(refused, 'datagram')}" if refused else ""
    print(
        f"{plural(len(observations), 'observation')} of packets at switches, "
        f"{plural(sent, 'report')} sent{lost}",
        file=sys.stderr,
    )
    if not sent:
        lossy = f"--fault lossy-port@0,node={fabric.switches[0].name},port=1,duration=10,loss=0.2"
        print(f"{monitor} had nothing to report; lost packets, for example: {lossy}", file=sys.stderr)
    for example in found:
        print(f"try: hopscope direct query {monitor} {example}", file=sys.stderr)


def _own_address(host: str) -> str | None:
    """A random loopback address, so each run acts as a new switch: a restarted numbering would lose its first
    report.
    """
    if not host.startswith("127."):
        return None
    return str(ipaddress.IPv4Address((127 << 24) + (1 << 16) + secrets.randbelow((1 << 24) - (2 << 16))))


def examples(monitor: Monitor, parts: list[Reports], nodes: Sequence[int]) -> list[str]:
    """Arguments of `direct query` after the store's name: up to EXAMPLES reported keys, or lists, that a
    query finds.
    """
    from ...direct.primitive import load
    from ...direct.stores.answers import QueryOptions
    from ...direct.stores.keys import parse_key
    from ...direct.stores.store import Store
    from ...direct.translation.translator import Translator
    from ...direct.transport import MemoryTransport

    store = Store.create(None, monitor.layout(EXPECTED_KEYS))
    translator = Translator([store.layout], MemoryTransport([store]))
    for part in parts:
        translator.translate(part.records.copy(), part.arena)
    while not translator.flush():
        pass
    options = QueryOptions(values=np.array(nodes, np.uint32))
    answer, found = load()[store.layout.opcode].answer, list[str]()
    in_order = list(nodes) == list(range(1, len(nodes) + 1))
    values = f"1-{len(nodes)}" if in_order else ",".join(map(str, nodes))
    for key in _keys(monitor, parts):
        stored = np.array([list(each) for each in monitor.stored_keys(parse_key(key))], np.uint8)
        if monitor.answer(answer(store, stored, options), options)["status"] == "found":
            found.append(f"{key} --values {values}" if monitor.needs_values else key)
        if len(found) == EXAMPLES:
            break
    return found


def _keys(monitor: Monitor, parts: list[Reports]) -> list[str]:
    """Distinct keys, as text, of an evenly spaced sample of the reports; for Append, their lists."""
    from ...direct.stores.keys import show_key
    from ...wire.dta.forms import Opcode

    shown: dict[str, None] = {}
    for part in parts:
        for row in part.records[:: 1 + len(part) // CANDIDATES]:
            at = int(row["key_at"])
            key = monitor.subject(part.arena[at : at + int(row["key_bytes"])].tobytes())
            shown[str(row["list"]) if row["opcode"] == Opcode.APPEND else show_key(key)] = None
    return list(shown)
