"""One run of an experiment: the simulation that its settings describe, and what is measured of it."""

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
from .events import Event, events_of, order
from .files import ExperimentError
from .series import around_events, series, silence
from .settings import Experiment, Run, TrafficSettings

if TYPE_CHECKING:
    from ..simulation.simulator import LabelSimulation
    from ..simulation.sources import Sources

MAX_CELLS = 1e9
"""Telemetry intervals times ports of a run: a byte each."""
MAX_PATHS = 2_000_000
"""Ways between hosts that a run lays at the start: 300 bytes each."""
MAX_ADAPTATIONS = 1_000_000
"""Times k T of a run with a controller."""
MEASURES = {
    "coverage": "share of the ports with traffic that the controller heard of, mean over telemetry intervals",
    "coverage_least": "the same of the worst interval",
    "coverage_full": "share of the intervals in which it heard of all",
    "coverage_at_switch": "coverage as section 6.2 has it: ports that labelled a packet in the interval",
    "coverage_of_all": "coverage where every port that had traffic at any time counts in every interval",
    "ports": "switch ports that had traffic",
    "packets": "packets that arrived at hosts",
    "lost": "share of packets that did not arrive",
    "labelled_packets": "packets that arrived with labels: exports to the controller",
    "labels": "labels that the controller has received",
    "labels_written": "labels that switches have written, lost ones too",
    "labels_a_packet": "labels of a labelled packet, mean",
    "bandwidth": "bytes of labels on links over bytes of traffic",
    "resolution": "time between updates of a port at the controller, mean over ports, s",
    "resolution_worst": "the same of the port with the longest, s",
    "silence": "longest time in which nothing new was heard of a port that had traffic, s",
    "delay": "from a label until the controller has it, mean, s",
    "delay_99": "the same, of 99 %, s",
    "packet_hops": "times that a port sent a packet",
    "packets_by_labels": "packets that arrived with 0, 1, 2 … labels, in columns packets_with_N",
}
"""What is measured of every run, after its warm-up; columns of results."""
EVENT_MEASURES = {
    "coverage_before": "coverage until the first event begins",
    "coverage_during": "coverage from the first event's begin until the last one is over",
    "coverage_after": "coverage when the last event is over",
    "recovery_begin": "from an event's begin until every port with traffic is heard of again, at worst, s",
    "recovery_end": "the same from an event's end, as from the time when a switch is added, s",
}
"""What is measured besides where a file has events."""


def columns(settings: Experiment) -> list[str]:
    """Names of the measures of a run, in order."""
    most = settings.labelling.max_hop
    names = [name for name in MEASURES if name != "packets_by_labels"]
    names += [f"packets_with_{count}" for count in range(most + 1)]
    return names + (list(EVENT_MEASURES) if settings.failure or settings.loss else [])


def build(run: Run) -> LabelSimulation:
    """The simulation of a run; FabricError where its fabric or its traffic cannot be."""
    from ....labels.controller import simulated_controller
    from ...topology import parse_topology
    from ..simulation.network import NetworkModel
    from ..simulation.simulator import LabelSimulation

    settings = run.settings
    topology = parse_topology(settings.network.topology, round(settings.network.rate))
    check_size(settings, len(topology.ports))
    times = settings.experiment
    network = settings.network.model_dump(exclude={"topology", "rate"})
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
        else simulated_controller(topology.ports, labelling, adaptive),
    )
    order(simulation, events, warm_up(settings) * times.telemetry)
    return simulation


def warm_up(settings: Experiment) -> int:
    """Telemetry intervals of the warm-up."""
    return ceil(settings.experiment.warm_up / settings.experiment.telemetry - 1e-9)


def events_in(run: Run, topology: Topology) -> list[Event]:
    """What happens in a run; ExperimentError where it cannot."""
    settings = run.settings
    return events_of(topology, settings.failure, settings.loss, settings.experiment.seconds)


def check_size(settings: Experiment, ports: int) -> None:
    """ExperimentError: packets do not fit, or more would be simulated than memory and time allow."""
    size, mtu, times = settings.traffic.size, settings.network.mtu, settings.experiment
    if size > mtu:
        raise ExperimentError(f"traffic.size {size} is above network.mtu {mtu}: no link takes such packets")
    intervals = (times.warm_up + times.seconds) / times.telemetry
    if intervals * ports > MAX_CELLS:
        raise ExperimentError(
            f"{intervals:,.0f} telemetry intervals of {ports:,} ports: {MAX_CELLS / ports:,.0f} at most; "
            "take a longer experiment.telemetry, or fewer experiment.seconds"
        )
    patience = settings.adaptive.k * settings.labelling.interval
    if settings.adaptive.mode != "off" and (times.warm_up + times.seconds) / patience > MAX_ADAPTATIONS:
        raise ExperimentError(
            f"adaptive.k {settings.adaptive.k:g}: a port is late after {patience:g} s, and the controller "
            f"looks several times in that; at most {MAX_ADAPTATIONS:,} of it fit into a run: a larger k"
        )


def traffic(topology: Topology, settings: TrafficSettings, seed: int, seconds: float) -> Sources:
    """Who sends what on a fabric in this time; FabricError where it has no such host, or too many ways."""
    from ...traffic import SIZES, TrafficModel
    from ..simulation.sources import flows, from_hosts

    if settings.pattern == "flows":
        model = TrafficModel(settings.flows, settings.load, SIZES[settings.sizes])
        return flows(topology, model, seconds, seed=seed)
    senders = list(range(topology.hosts))
    if settings.pattern == "senders":
        senders = [_host(topology, name) for name in settings.senders] or [0, topology.hosts - 1]
    ways = len(senders) * min(settings.destinations or topology.hosts, topology.hosts)
    if ways > MAX_PATHS:
        raise FabricError(
            f"traffic: {ways:,} ways between hosts, at most {MAX_PATHS:,} are laid: set traffic.destinations"
        )
    return from_hosts(
        topology, senders, settings.rate, size=settings.size, random=settings.random, seed=seed,
        destinations=settings.destinations or None, tracked=settings.tracked,
    )  # fmt: skip


def _host(topology: Topology, name: str) -> int:
    if name not in topology.host_names:
        raise FabricError(
            f"traffic.senders: {topology.name} has no host {name!r}: its hosts are "
            f"{', '.join(topology.host_names[:3])} … {topology.host_names[-1]}"
        )
    return topology.host_names.index(name)


def perform(run: Run, progress: Callable[[float], object] | None = None) -> dict[str, Any]:
    """Simulate a run and measure it: its row of results without its parameters.

    With `experiment.intervals`, "intervals" has columns of them, as `experiment_series.series` gives them.
    `progress` is called with the share of the run that is done.
    """
    settings = run.settings.experiment
    simulation = build(run)
    first = warm_up(run.settings)
    last = first + max(1, round(settings.seconds / settings.telemetry))
    end = last * settings.telemetry
    tell = None if progress is None else lambda now: progress(now / end)
    simulation.run(first * settings.telemetry, tell)
    before, histogram = simulation.counts, simulation.histogram.copy()
    counted = [before]
    for until in range(first + 1, last) if settings.intervals else ():
        simulation.run(until * settings.telemetry, tell)
        counted.append(simulation.counts)
    simulation.run(end, tell)
    counted.append(simulation.counts)
    counts = {name: value - getattr(before, name) for name, value in asdict(simulation.counts).items()}
    received, active = simulation.received, simulation.active
    by_labels = (simulation.histogram - histogram).sum(axis=0)
    # Labels that were written in the last intervals may still be under way: they are waited for.
    slowest = float((received["received"] - received["labelled"]).max(initial=0)) / PS
    simulation.run(end + min(slowest, end))
    row = measured(
        received, simulation.received, active, first, settings.telemetry, counts, by_labels,
        run.settings.labelling.max_hop,
    )  # fmt: skip
    if events := events_in(run, simulation.topology):
        row |= around_events(received, active, first, settings.telemetry, events)
    if settings.intervals:
        row["intervals"] = series(received, active, first, settings.telemetry, counted)
    return row


def measured(
    received: measures.Labels,
    ever_received: measures.Labels,
    active: measures.Bools,
    first: int,
    telemetry: float,
    counts: dict[str, int],
    by_labels: npt.NDArray[np.int64],
    max_hop: int,
) -> dict[str, Any]:
    """The measures of a run from interval `first` on; those that have no value are None.

    `received`: labels that arrived until the run's end; `ever_received`: those also that were under way then.
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
        "coverage_least": _over(share, np.min),
        "coverage_full": _mean(np.where(np.isnan(share), np.nan, share == 1)),
        "coverage_at_switch": _mean(at_switch),
        "coverage_of_all": _mean(of_all),
        "ports": int(ever[0].sum()),
        "packets": counts["delivered"],
        "lost": 1 - counts["delivered"] / ended if ended else np.nan,
        "labelled_packets": exports,
        "labels": len(labels),
        "labels_written": counts["labels"],
        "labels_a_packet": carried / exports if exports else np.nan,
        "bandwidth": counts["label_bytes"] / counts["bytes"] if counts["bytes"] else np.nan,
        "resolution": _mean(between),
        "resolution_worst": _over(between, np.max),
        "silence": silence(received, active, first, telemetry),
        "delay": _mean(delay),
        "delay_99": _over(delay, lambda known: np.quantile(known, 0.99)),
        "packet_hops": counts["hops"],
    }
    row |= {f"packets_with_{count}": int(packets) for count, packets in enumerate(with_labels)}
    return {name: None if np.isnan(value) else value for name, value in row.items()}


def _over(values: measures.Floats, what: Callable[[measures.Floats], Any]) -> float:
    known = values[~np.isnan(values)]
    return float(what(known)) if len(known) else float("nan")


def _mean(values: npt.ArrayLike) -> float:
    return _over(np.asarray(values, np.float64), np.mean)
