"""One run of an experiment: build the simulation from its settings, run it, and measure it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ...ports import FabricError, Topology
from ...records import PS
from ..simulation import measures
from .events import Event, events_of, schedule
from .files import ExperimentError
from .series import around_events, longest_silence, series
from .settings import Experiment, Run, TrafficSettings

if TYPE_CHECKING:
    from ..simulation.simulator import LabelSimulation
    from ..simulation.sources import Sources

MAX_CELLS = 1e9
"""Maximum telemetry intervals times ports of a run; each takes a byte."""
MAX_PATHS = 2_000_000
"""Maximum paths between hosts that a run computes at the start; each takes 300 bytes."""
MAX_ADAPTATIONS = 1_000_000
"""Maximum multiples of k T in a run with a controller."""
MEASURES = {
    "coverage": "share of the ports with traffic from which the controller received a label, mean over "
    "telemetry intervals",
    "coverage_min": "the same, in the worst interval",
    "coverage_full": "share of the intervals in which it received labels from all of them",
    "coverage_at_switch": "coverage as defined in section 6.2: ports that labelled a packet in the interval",
    "coverage_of_all": "coverage if every port with traffic at any time counts in every interval",
    "ports": "switch ports that had traffic",
    "packets": "packets delivered to hosts",
    "lost": "share of packets lost",
    "labelled_packets": "packets that arrived with labels: exports to the controller",
    "labels": "labels received by the controller",
    "labels_written": "labels written by switches, including lost ones",
    "labels_per_packet": "labels per labelled packet, mean",
    "bandwidth": "label bytes on links divided by traffic bytes",
    "resolution": "time between updates of a port at the controller, mean over ports, s",
    "resolution_worst": "the same, of the slowest port, s",
    "silence": "longest time without a new label of a port with traffic, s",
    "delay": "time from writing a label until the controller has it, mean, s",
    "delay_99": "the same, 99th percentile, s",
    "packet_hops": "packets sent by ports, counted at every hop",
    "packets_by_labels": "packets delivered with 0, 1, 2 … labels, in columns packets_with_N",
}
"""Measures of every run after its warm-up: columns of the results."""
EVENT_MEASURES = {
    "coverage_before": "coverage before the first event",
    "coverage_during": "coverage from the start of the first event to the end of the last one",
    "coverage_after": "coverage after the last event",
    "recovery_begin": "time from an event's start until the controller has a new label of every port with "
    "traffic, worst case, s",
    "recovery_end": "the same, from an event's end (for example, when a switch is added), s",
}
"""Additional measures if a file has events."""


def columns(settings: Experiment) -> list[str]:
    """Column names of a run's measures, in order."""
    max_labels = settings.labelling.max_hop
    names = [name for name in MEASURES if name != "packets_by_labels"]
    names += [f"packets_with_{count}" for count in range(max_labels + 1)]
    return names + (list(EVENT_MEASURES) if settings.failure or settings.loss else [])


def build(run: Run) -> LabelSimulation:
    """The simulation of a run. Raises FabricError for an impossible fabric or traffic."""
    from ....labels.controller import Controller, PortDatabase
    from ...topology import parse_topology
    from ..simulation.network import NetworkModel
    from ..simulation.simulator import LabelSimulation

    settings = run.settings
    topology = parse_topology(settings.network.topology, round(settings.network.rate))
    if settings.network.host_rate:
        topology.ports["rate"][: topology.hosts] = int(settings.network.host_rate)
    check_size(settings, len(topology.ports))
    times = settings.experiment
    network = settings.network.model_dump(exclude={"topology", "rate", "host_rate"})
    labelling, adaptive = settings.labelling, settings.adaptive
    events = events_in(run, topology)
    simulation = LabelSimulation(
        topology,
        traffic(topology, settings.traffic, run.seed, times.warm_up + times.seconds + 2 * times.telemetry),
        labelling,
        network=NetworkModel(**network),
        adaptive=adaptive,
        seed=run.seed,
        telemetry=settings.experiment.telemetry,
        controller=None
        if adaptive.mode == "off"
        else Controller(labelling, adaptive, PortDatabase(topology.ports)),
    )
    schedule(simulation, events, warm_up(settings) * times.telemetry)
    return simulation


def warm_up(settings: Experiment) -> int:
    """Duration of the warm-up in telemetry intervals."""
    return ceil(settings.experiment.warm_up / settings.experiment.telemetry - 1e-9)


def events_in(run: Run, topology: Topology) -> list[Event]:
    """Events of a run. Raises ExperimentError for impossible ones."""
    settings = run.settings
    return events_of(topology, settings.failure, settings.loss, settings.experiment.seconds)


def check_size(settings: Experiment, ports: int) -> None:
    """Raise ExperimentError if packets exceed the MTU, or the run needs too much memory or time."""
    size, mtu, times = settings.traffic.size, settings.network.mtu, settings.experiment
    if size > mtu:
        raise ExperimentError(f"traffic.size {size} exceeds network.mtu {mtu}")
    intervals = (times.warm_up + times.seconds) / times.telemetry
    if intervals * ports > MAX_CELLS:
        raise ExperimentError(
            f"{intervals:,.0f} telemetry intervals of {ports:,} ports: at most {MAX_CELLS / ports:,.0f}; "
            "use a longer experiment.telemetry, or fewer experiment.seconds"
        )
    timeout = settings.adaptive.k * settings.labelling.interval
    if settings.adaptive.mode != "off" and (times.warm_up + times.seconds) / timeout > MAX_ADAPTATIONS:
        raise ExperimentError(
            f"adaptive.k {settings.adaptive.k:g}: a port is late after {timeout:g} s, and the controller "
            f"checks several times in that; a run has at most {MAX_ADAPTATIONS:,} such times: use a larger k"
        )


def traffic(topology: Topology, settings: TrafficSettings, seed: int, seconds: float) -> Sources:
    """Traffic on a fabric for this time. Raises FabricError for an unknown host, or too many paths."""
    from ...traffic import SIZES, TrafficModel
    from ..simulation.sources import flows, from_hosts

    if settings.pattern == "flows":
        model = TrafficModel(settings.flows, settings.load, SIZES[settings.sizes])
        return flows(topology, model, seconds, seed=seed)
    senders = list(range(topology.hosts))
    if settings.pattern == "senders":
        senders = [_host(topology, name) for name in settings.senders] or [0, topology.hosts - 1]
    paths = len(senders) * min(settings.destinations or topology.hosts, topology.hosts)
    if paths > MAX_PATHS:
        raise FabricError(
            f"traffic: {paths:,} paths between hosts, at most {MAX_PATHS:,} are supported; set "
            "traffic.destinations"
        )
    return from_hosts(
        topology, senders, settings.rate, size=settings.size, random=settings.random, seed=seed,
        destinations=settings.destinations or None, tracked=settings.tracked,
    )  # fmt: skip


def _host(topology: Topology, name: str) -> int:
    if name not in topology.host_names:
        raise FabricError(
            f"traffic.senders: {topology.name} has no host {name!r}; its hosts are "
            f"{', '.join(topology.host_names[:3])} … {topology.host_names[-1]}"
        )
    return topology.host_names.index(name)


def simulate_run(run: Run, progress: Callable[[float], object] | None = None) -> dict[str, Any]:
    """Simulate and measure a run; returns its row of results without its parameters.

    With `experiment.intervals`, "intervals" has the columns of `series.series`. `progress` is called with the
    finished share of the run.
    """
    settings = run.settings.experiment
    simulation = build(run)
    first = warm_up(run.settings)
    last = first + max(1, round(settings.seconds / settings.telemetry))
    end = last * settings.telemetry
    notify = None if progress is None else lambda now: progress(now / end)
    simulation.run(first * settings.telemetry, notify)
    before, histogram = simulation.counts, simulation.histogram.copy()
    counted = [before]
    for until in range(first + 1, last) if settings.intervals else ():
        simulation.run(until * settings.telemetry, notify)
        counted.append(simulation.counts)
    simulation.run(end, notify)
    counted.append(simulation.counts)
    counts = {name: value - getattr(before, name) for name, value in asdict(simulation.counts).items()}
    received, active = simulation.received, simulation.active
    by_labels = (simulation.histogram - histogram).sum(axis=0)
    # Labels written in the last intervals may still be in flight: simulate until they arrive.
    slowest = float((received["received"] - received["labelled"]).max(initial=0)) / PS
    simulation.run(end + min(slowest, end))
    row = measure(
        received, simulation.received, active, first, settings.telemetry, counts, by_labels,
        run.settings.labelling.max_hop,
    )  # fmt: skip
    if events := events_in(run, simulation.topology):
        row |= around_events(received, active, first, settings.telemetry, events)
    if settings.intervals:
        row["intervals"] = series(received, active, first, settings.telemetry, counted)
    return row


def measure(
    received: measures.Labels,
    ever_received: measures.Labels,
    active: measures.Bools,
    first: int,
    telemetry: float,
    counts: dict[str, int],
    by_labels: npt.NDArray[np.int64],
    max_hop: int,
) -> dict[str, Any]:
    """The measures of a run from interval `first` on; None without a value.

    `received`: labels that arrived before the run's end; `ever_received`: also those still in flight then.
    """
    start = round(first * telemetry * PS)
    share = measures.coverage(received, active, telemetry)[first:]
    at_switch = measures.coverage(ever_received, active, telemetry, at="switch")[first:]
    ever = np.broadcast_to(active[first:].any(axis=0), active.shape)
    of_all = measures.coverage(received, ever, telemetry)[first:]
    labels = received[received["received"] >= start]
    between, delay = measures.resolution(labels, active.shape[1]), measures.delay(labels)
    ended = counts["delivered"] + counts["tail_drops"] + counts["lost"] + counts["link_down"]
    exports = counts["labelled"]
    carried = int(by_labels @ np.arange(len(by_labels)))
    with_labels = np.r_[by_labels[:max_hop], by_labels[max_hop:].sum()]
    row: dict[str, float | int] = {
        "coverage": _mean(share),
        "coverage_min": _percentile(share, np.min),
        "coverage_full": _mean(np.where(np.isnan(share), np.nan, share == 1)),
        "coverage_at_switch": _mean(at_switch),
        "coverage_of_all": _mean(of_all),
        "ports": int(ever[0].sum()),
        "packets": counts["delivered"],
        "lost": 1 - counts["delivered"] / ended if ended else np.nan,
        "labelled_packets": exports,
        "labels": len(labels),
        "labels_written": counts["labels"],
        "labels_per_packet": carried / exports if exports else np.nan,
        "bandwidth": counts["label_bytes"] / counts["bytes"] if counts["bytes"] else np.nan,
        "resolution": _mean(between),
        "resolution_worst": _percentile(between, np.max),
        "silence": longest_silence(received, active, first, telemetry),
        "delay": _mean(delay),
        "delay_99": _percentile(delay, lambda known: np.quantile(known, 0.99)),
        "packet_hops": counts["hops"],
    }
    row |= {f"packets_with_{count}": int(packets) for count, packets in enumerate(with_labels)}
    return {name: None if np.isnan(value) else value for name, value in row.items()}


def _percentile(values: measures.Floats, reduce: Callable[[measures.Floats], Any]) -> float:
    known = values[~np.isnan(values)]
    return float(reduce(known)) if len(known) else float("nan")


def _mean(values: npt.ArrayLike) -> float:
    return _percentile(np.asarray(values, np.float64), np.mean)
