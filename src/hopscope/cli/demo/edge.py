"""The part of the demo's network without INT: its settings, its names, and its sender."""

from __future__ import annotations

import socket
import threading
import time
from ipaddress import IPv4Address

from ...fabric.edge import AGENTS, FULL_BYTES, NAMES, TICK, Edge
from ...fabric.topology import Topology

HOST = "127.0.0.1"
_CONFIG = """
[[listen]]
kind = "sflow"
host = "127.0.0.1"
port = {sflow}
nodes = {{ {agents} }}

[[listen]]
kind = "ipfix"
host = "127.0.0.1"
port = {ipfix}
nodes = {{ "127.0.0.1" = {exporter} }}
"""
_LIMITS = """
[[detect.switches]]       # depths of its queues are bytes, not cells
node = {node}
queue_occupancy = {{ change = 50000, raise_above = {above}, clear_below = {below} }}
"""


def node_ids(topology: Topology) -> list[int]:
    """Ids of the edge's nodes: those after the switches of the fabric."""
    last = max(switch.node_id for switch in topology.switches)
    return [last + 1 + n for n in range(len(NAMES))]


def names_toml(topology: Topology) -> str:
    """The names of all nodes and ports."""
    edge = "".join(f'"{id_}" = "{name}"\n' for id_, name in zip(node_ids(topology), NAMES, strict=True))
    return topology.names_toml().replace("[nodes]\n", f"[nodes]\n{edge}", 1)


def listeners_toml(topology: Topology, ports: dict[str, int]) -> str:
    """The listeners of the edge, after that of the fabric."""
    ids = node_ids(topology)
    agents = ", ".join(f'"{IPv4Address(agent)}" = {id_}' for agent, id_ in zip(AGENTS, ids, strict=False))
    return _CONFIG.format(agents=agents, exporter=ids[-1], **ports)


def limits_toml(topology: Topology) -> str:
    """Limits of the edge's switches."""
    return "".join(
        _LIMITS.format(node=node, above=FULL_BYTES // 2, below=FULL_BYTES // 4)
        for node in node_ids(topology)[: len(AGENTS)]
    )


class EdgeSender(threading.Thread):
    """Sends the messages of the edge's nodes, in real time, until it is stopped."""

    def __init__(self, ports: dict[str, int], seed: int) -> None:
        super().__init__(daemon=True)
        self._ports, self._edge = ports, Edge(seed)
        self._end = threading.Event()
        self.reports = 0
        """Number of reports that the collector makes from the messages sent so far."""

    def run(self) -> None:
        """Send until `stop`."""
        begin, ticks = time.monotonic(), 0
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            while not self._end.wait(max(begin + ticks * TICK - time.monotonic(), 0)):
                ticks += 1
                for sent in self._edge.tick(int(time.time())):
                    sender.sendto(sent.payload, (HOST, self._ports[sent.kind]))
                    self.reports += sent.reports

    def stop(self) -> None:
        """Stop sending; all messages that `reports` counts have been sent."""
        self._end.set()
        if self.is_alive():
            self.join()
