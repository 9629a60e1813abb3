"""The current state of a switch: rates of its counters, and its interfaces; as text and as Prometheus
metrics.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from ..bpf.hash_map import HashMap
from ..bpf.tc import pinned
from .counters import Counters, read_counters
from .drops import drops
from .labels.layout import LabelCount
from .layout import PORT
from .program import label_counts
from .settings import SwitchSettings


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
    descriptor = pinned(settings.pins / "ports")
    ports = {}
    try:
        for key, value in HashMap(descriptor, 4, PORT.itemsize).items():
            with suppress(OSError):  # the interface no longer exists
                name = socket.if_indextoname(int.from_bytes(key, sys.byteorder))
                ports[name] = np.frombuffer(value, PORT)[0]
    finally:
        os.close(descriptor)
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
    from prometheus_client.core import CollectorRegistry, CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.registry import Collector

    now = take(settings)

    class Families(Collector):
        def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
            packets = CounterMetricFamily("hopscope_int_packets", "Packets by outcome.", labels=["result"])
            reports = CounterMetricFamily("hopscope_int_reports", "Reports by outcome.", labels=["result"])
            dropped = CounterMetricFamily(
                "hopscope_int_drops", "Packets of the watch list that were dropped.", labels=["reason"]
            )
            for count, number in now.counters.packets.items():
                packets.add_metric([count.label], number)
            for report, number in now.counters.reports.items():
                reports.add_metric([report.name.lower()], number)
            for reason, number in now.drops.items():
                dropped.add_metric([reason], number)
            labels = CounterMetricFamily(
                "hopscope_int_labels", "Packets by outcome of INT-label.", labels=["result"]
            )
            for label, number in now.labels.items():
                labels.add_metric([label.label.removeprefix("label_")], number)
            yield from (packets, reports, dropped, labels)
            for name, help_, column, scale in (
                ("hops", "Packets whose latency was measured.", "hops", 1.0),
                ("latency_seconds", "Sum of the measured latencies.", "latency_ns", 1e-9),
            ):
                counter = CounterMetricFamily(f"hopscope_int_{name}", help_, labels=["interface"])
                for interface, port in now.ports.items():
                    counter.add_metric([interface], float(port[column]) * scale)
                yield counter
            queue = GaugeMetricFamily(
                "hopscope_int_queue_packets",
                "Packets in the queue, as last measured.",
                labels=["interface"],
            )
            used = GaugeMetricFamily(
                "hopscope_int_utilization_ratio", "Utilisation of the link.", labels=["interface"]
            )
            for interface, port in now.ports.items():
                queue.add_metric([interface], float(port["queue"]))
                if port["mbits"]:
                    used.add_metric([interface], float(port["utilization"]) / 10_000)
            yield from (queue, used)

    registry = CollectorRegistry()
    registry.register(Families())
    return generate_latest(registry).decode()
