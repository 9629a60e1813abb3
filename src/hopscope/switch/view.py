"""The current state of a switch: rates of its counters, and its interfaces; as text and as Prometheus
metrics.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ..bpf.tc import pinned_entries
from .counters import Counters, read_counters
from .drops import drops
from .labels.layout import LabelCount
from .layout import PORT
from .program import label_counts
from .settings import SwitchSettings

if TYPE_CHECKING:
    from prometheus_client import Metric


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All counters at one time."""

    seconds: float
    """Time of the snapshot, CLOCK_MONOTONIC."""
    counters: Counters
    drops: dict[str, int]
    """Dropped packets by the kernel's reason."""
    ports: dict[str, np.void] = field(default_factory=dict)
    """PORT of each interface, by its name."""
    labels: dict[LabelCount, int] = field(default_factory=dict)
    """Packets by outcome of INT-label; empty without INT-label."""

    def rows(self) -> Iterator[tuple[str, int]]:
        """(name, value) of each counter."""
        yield from self.counters.rows()
        yield from ((count.label, number) for count, number in self.labels.items())
        yield from ((f"dropped_{reason}", number) for reason, number in self.drops.items())


def take(settings: SwitchSettings) -> Snapshot:
    """The current counters. Raises CaptureError if nothing is attached."""
    counters, lost = read_counters(settings.pins), drops(settings.pins)
    ports = {}
    for key, value in pinned_entries(settings.pins / "ports", 4, PORT.itemsize).items():
        with suppress(OSError):  # the interface no longer exists
            name = socket.if_indextoname(int.from_bytes(key, sys.byteorder))
            ports[name] = np.frombuffer(value, PORT)[0]
    return Snapshot(time.monotonic(), counters, lost, dict(sorted(ports.items())), label_counts(settings))


def rates(before: Snapshot, now: Snapshot) -> Iterator[tuple[str, float, int]]:
    """(counter, rate per second between two snapshots, total) of counters that are not 0."""
    spent = now.seconds - before.seconds
    earlier = dict(before.rows())
    for name, total in now.rows():
        if total:
            yield name, (total - earlier.get(name, 0)) / spent, total


def port_values(
    before: Snapshot, now: Snapshot
) -> Iterator[tuple[str, float, float | None, int, float | None]]:
    """(interface, hops per second, their mean latency in us, packets in its queue, utilisation in %); None:
    unknown.
    """
    spent = now.seconds - before.seconds
    for name, port in now.ports.items():
        earlier = before.ports.get(name, np.zeros(1, PORT)[0])
        hops = int(port["hops"]) - int(earlier["hops"])
        latency = (int(port["latency_ns"]) - int(earlier["latency_ns"])) / hops / 1000 if hops else None
        used = int(port["utilization"]) / 100 if port["mbits"] else None
        yield name, hops / spent, latency, int(port["queue"]), used


def screen(before: Snapshot, now: Snapshot) -> str:
    """Rates and interfaces as text."""
    lines = [f"{'interface':<16}{'hops/s':>10}{'latency us':>12}{'queue':>8}{'used %':>8}"]
    for name, hops, latency, queue, used in port_values(before, now):
        shown = "-" if latency is None else f"{latency:,.1f}"
        percent = "-" if used is None else f"{used:.1f}"
        lines.append(f"{name:<16}{hops:>10,.0f}{shown:>12}{queue:>8,}{percent:>8}")
    lines += ["", f"{'counter':<36}{'a second':>12}{'total':>14}"]
    lines += [f"{name:<36}{rate:>12,.0f}{total:>14,}" for name, rate, total in rates(before, now)]
    return "\n".join(lines)


def metrics(settings: SwitchSettings) -> str:
    """Counters and interfaces as Prometheus metrics (text format). Raises CaptureError."""
    from prometheus_client import generate_latest
    from prometheus_client.registry import Collector

    now = take(settings)

    class Families(Collector):
        def collect(self) -> Iterator[Metric]:
            return _families(now)

    return generate_latest(Families()).decode()


def _families(now: Snapshot) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    packets = {count.label: number for count, number in now.counters.packets.items()}
    reports = {count.name.lower(): number for count, number in now.counters.reports.items()}
    labels = {count.label.removeprefix("label_"): number for count, number in now.labels.items()}
    ports = now.ports.items()
    hops = {name: port["hops"] for name, port in ports}
    latencies = {name: port["latency_ns"] * 1e-9 for name, port in ports}
    queues = {name: port["queue"] for name, port in ports}
    used = {name: port["utilization"] / 10_000 for name, port in ports if port["mbits"]}
    for kind, name, text, label, values in (
        (CounterMetricFamily, "packets", "Packets by outcome.", "result", packets),
        (CounterMetricFamily, "reports", "Reports by outcome.", "result", reports),
        (CounterMetricFamily, "drops", "Packets of the watch list that were dropped.", "reason", now.drops),
        (CounterMetricFamily, "labels", "Packets by outcome of INT-label.", "result", labels),
        (CounterMetricFamily, "hops", "Packets whose latency was measured.", "interface", hops),
        (CounterMetricFamily, "latency_seconds", "Sum of the measured latencies.", "interface", latencies),
        (GaugeMetricFamily, "queue_packets", "Packets in the queue, as last measured.", "interface", queues),
        (GaugeMetricFamily, "utilization_ratio", "Utilisation of the link.", "interface", used),
    ):
        family = kind(f"hopscope_int_{name}", text, labels=[label])
        for each, value in values.items():
            family.add_metric([each], float(value))
        yield family
