"""Coverage of INT-label on bmv2 beside the simulation of the same network (root, P4 tools)."""

from __future__ import annotations

import os
import select
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.common import Bench
from harness.label_runs import mean, measure
from hopscope.labels.records import Chance
from hopscope.testbed.namespaces import delete
from hopscope.wire.label.codec import read_blocks
from hopscope.wire.label.layout import LABEL_PORT, LabelItem
from support.network.bmv2 import PREFIX, Switch, available, cable, quiet_namespace, raw_socket

LEAVES, SPINES, HOSTS = 2, 1, 2
"""One spine, so that a packet has one path in both networks: of one switch or three. 8 ports have traffic."""
INTERVAL_US, TELEMETRY = 50_000, 0.1
"""T, and the interval that coverage counts: those of the paper (6.1)."""
PACKETS, SIZE = 400, 200
"""A second, of all hosts together, and bytes."""
UP, CONTROLLER = 5, 9
"""Ports of a leaf: to the spine, and to the controller."""


def mac(leaf: int, host: int) -> int:
    """Ethernet address of a host."""
    return 0x020000000000 | leaf << 8 | host


class Network:
    """Three switches joined by veth pairs in one namespace."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self.space = f"{PREFIX}-{os.getpid()}-bench"
        quiet_namespace(self.space)
        stack.callback(delete, self.space)
        ports: dict[str, dict[int, str]] = {}

        def join(one: str, port: int, other: str, far: int) -> None:
            near, end = f"{one}-{port}", f"{other}-{far}"
            cable((self.space, near), (self.space, end))
            ports.setdefault(one, {})[port] = near
            if other[0] in "ls":
                ports.setdefault(other, {})[far] = end

        for leaf in range(LEAVES):
            for host in range(HOSTS):
                join(f"l{leaf}", 1 + host, f"h{leaf}", host)
            join(f"l{leaf}", UP, "s0", 1 + leaf)
            join(f"l{leaf}", CONTROLLER, f"c{leaf}", 0)
        self.nodes = {name: number for number, name in enumerate(sorted(ports), 1)}
        self.switches = {}
        for name, found in ports.items():
            self.switches[name] = Switch("label", folder, self.space, found, name)
            stack.callback(self.switches[name].stop)
            self._fill(name, found)
        self.hosts = {(leaf, host): raw_socket(self.space, f"h{leaf}-{host}")
                      for leaf in range(LEAVES) for host in range(HOSTS)}  # fmt: skip
        self.controllers = {f"l{leaf}": raw_socket(self.space, f"c{leaf}-0") for leaf in range(LEAVES)}

    def _fill(self, name: str, ports: dict[int, str]) -> None:
        control = self.switches[name].control
        control.default("node", "set_node", id=self.nodes[name], epoch_ns=0, queue_unit=SIZE)
        for leaf in range(LEAVES):
            for host in range(HOSTS):
                if name[0] == "s":
                    port = 1 + leaf
                else:
                    port = 1 + host if name == f"l{leaf}" else UP
                control.insert("station", {"destination": mac(leaf, host)}, "to_port", port=port)
        for port in ports:
            self._rule(control, name, port, False, 0)
        if name[0] == "l":
            control.clone_session(2, CONTROLLER)
            control.default("controller", "to_controller", source_mac=1, destination_mac=2, source=1,
                            destination=2, port=LABEL_PORT)  # fmt: skip

    def _rule(self, control: Any, name: str, port: int, modify: bool, chance: int) -> None:
        if port == CONTROLLER:
            return
        last = name[0] == "l" and port <= HOSTS
        action = "last_hop" if last else "label_port"
        more: dict[str, Any] = {} if last else {"bytes": 1700}
        control.insert(
            "label_ports", {"egress_port": port}, action, modify=modify, interval=INTERVAL_US, shift=0,
            rest=0, chance=chance, **more,
        )  # fmt: skip

    def set(self, chance: int) -> None:
        """Base A (0), or a function of Base B, at all ports."""
        for name, switch in self.switches.items():
            for port in range(1, CONTROLLER):
                if port <= 2 or (name[0] == "l" and port == UP):
                    self._rule(switch.control, name, port, True, chance)

    def path(self, source: tuple[int, int], to: tuple[int, int]) -> list[tuple[int, int]]:
        """(node, egress port) of the switches that a packet passes."""
        if source[0] == to[0]:
            return [(self.nodes[f"l{to[0]}"], 1 + to[1])]
        return [(self.nodes[f"l{source[0]}"], UP), (self.nodes["s0"], 1 + to[0]),
                (self.nodes[f"l{to[0]}"], 1 + to[1])]  # fmt: skip


def frame(source: tuple[int, int], to: tuple[int, int]) -> bytes:
    """An IPv4 packet of one host to another."""
    from scapy.layers.inet import IP, UDP
    from scapy.layers.l2 import Ether
    from scapy.packet import Raw

    layers = IP(src=f"10.0.{source[0]}.{source[1] + 2}", dst=f"10.0.{to[0]}.{to[1] + 2}") / UDP(
        sport=1, dport=2
    )
    ends = (mac(*address).to_bytes(6, "big").hex(":") for address in (to, source))
    return bytes(Ether(dst=next(ends), src=next(ends)) / layers / Raw(bytes(SIZE - 28)))


def run(network: Network, seconds: float, seed: int) -> tuple[float, float, int]:
    """(coverage, labels of a labelled packet, packets sent) of so many seconds, between random hosts."""
    rng = np.random.default_rng(seed)
    ends = list(network.hosts)
    frames = {(a, b): frame(a, b) for a in ends for b in ends if a != b}
    pairs = list(frames)
    gaps = rng.exponential(1 / PACKETS, int(PACKETS * seconds))
    active: set[tuple[int, int, int]] = set()
    covered: set[tuple[int, int, int]] = set()
    labels = blocks = sent = 0
    begin = time.monotonic()
    due = begin + np.cumsum(gaps)

    def take(until: float) -> None:
        nonlocal labels, blocks
        while True:
            ready, _, _ = select.select([*network.controllers.values(), *network.hosts.values()], [], [],
                                        max(0.0, until - time.monotonic()))  # fmt: skip
            if not ready:
                return
            now = int((time.monotonic() - begin) / TELEMETRY)
            for handle in ready:
                raw = handle.recv(70_000)
                if handle not in network.controllers.values():
                    continue
                found, error = read_blocks(raw[42:])
                assert error is None
                for block in found:
                    blocks += 1
                    labels += len(block.items)
                    for item in block.items:
                        assert isinstance(item, LabelItem)
                        covered.add((item.node_id, item.egress_port, now))

    for at in due:
        take(at)
        source, to = pairs[int(rng.integers(len(pairs)))]
        interval = int((time.monotonic() - begin) / TELEMETRY)
        network.hosts[source].send(frames[source, to])
        sent += 1
        active |= {(*place, interval) for place in network.path(source, to)}
    take(time.monotonic() + 0.5)
    whole = range(2, int(seconds / TELEMETRY) - 1)
    counted = {place for place in active if place[2] in whole}
    return len(counted & covered) / len(counted), labels / max(1, blocks), sent


def simulated(name: str, seconds: float, seeds: int) -> float:
    """Mean coverage of the simulation of this network and traffic, by arrival at the controller."""
    rows = measure(
        seeds, experiment__seconds=seconds, network__topology=f"leaf-spine:{LEAVES}x{SPINES}x{HOSTS}",
        traffic__pattern="uniform", traffic__rate=PACKETS / (LEAVES * HOSTS) * SIZE * 8, traffic__size=SIZE,
        labelling__algorithm=name, labelling__interval=INTERVAL_US / 1e6,
    )  # fmt: skip
    return mean(rows, "coverage")


def main() -> None:
    """Base A and Base B with F1, over three switches."""
    bench, _ = Bench.start(
        "p4_label",
        "the share of ports with traffic whose label arrived in a telemetry interval (100 ms), T = 50 ms.",
        "speed and scale: three bmv2 processes and the sender share two cores; 400 packets per second.",
    )
    try:
        available()
    except pytest.skip.Exception as error:
        raise SystemExit(str(error)) from None
    seconds, seeds = (5.0, 2) if bench.quick else (30.0, 10)
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        network = Network(stack, Path(folder))
        for name, chance in (("base-a", Chance.NEVER), ("base-b", Chance.F1)):
            network.set(chance)
            coverage, labels, sent = run(network, seconds, 1)
            case: dict[str, object] = {"algorithm": name}
            bench.row(
                case | {"of": "bmv2"}, coverage, "coverage", f"{labels:.2f} labels a packet, {sent:,} packets"
            )
            bench.row(
                case | {"of": "simulation"}, simulated(name, seconds, seeds), "coverage", f"{seeds} seeds"
            )


if __name__ == "__main__":
    main()
