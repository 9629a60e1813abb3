"""Settings of an experiment: fabric, traffic, labelling, and swept values."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

from pydantic import Field, ValidationError, ValidationInfo, field_validator

from ....settings.configuration.errors import expected
from ....settings.label import AdaptiveSettings, LabellingSettings
from ....settings.section import Seconds, Section
from ..simulation.network import NetworkModel
from .events import KINDS as EVENTS
from .events import MAX_EVENTS, FailureSettings, LossSettings

MAX_RUNS = 100_000
MAX_DELAY_NS = 1_000_000_000
"""Longest delay of a link, a switch, or the path to the controller, ns."""
_DEFAULT = NetworkModel()


class RunSettings(Section):
    """Duration, repetitions, and names of the results."""

    name: str = Field(default="experiment", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    """Prefix of the names of result files."""
    seeds: int = Field(default=3, ge=1, le=10_000)
    """Runs per point, with seeds from 1."""
    seconds: Seconds = Field(default=10.0, gt=0)
    """Measured simulated time, s."""
    warm_up: Seconds = 1.0
    """Simulated time before the measurement, s; rounded up to whole telemetry intervals."""
    telemetry: Seconds = Field(default=0.1, gt=1e-6)
    """Telemetry interval, s; coverage is measured per interval."""
    processes: int = Field(default=2, ge=1, le=2)
    """Parallel runs."""
    intervals: bool = False
    """Also write all telemetry intervals of all runs: NAME.intervals.parquet, .csv and .png."""


class NetworkSettings(Section):
    """The fabric, its links and switches, and the delay to the controller."""

    topology: str = "paper"
    """`paper` (4-4-4 switches, 8 hosts), `fat-tree:K`, `leaf-spine:LxS`, `leaf-spine:LxSxHOSTS`, or an own
    one, `FILE.toml`.
    """
    rate: float = Field(default=1e9, ge=1e3, le=1e12)
    """Rate of every link, bit/s; in an own topology, of links whose rate the file does not state."""
    host_rate: float = Field(default=0, ge=0, le=1e12)
    """Rate at which hosts send, bit/s, if it differs from that of the switches; 0: `rate`."""
    buffer_bytes: int = Field(default=_DEFAULT.buffer_bytes, ge=1, le=2**32 - 1)
    """Queue capacity of a port, bytes."""
    propagation_ns: int = Field(default=_DEFAULT.propagation_ns, ge=0, le=MAX_DELAY_NS)
    """Delay of a link, ns."""
    pipeline_ns: int = Field(default=_DEFAULT.pipeline_ns, ge=0, le=MAX_DELAY_NS)
    """Delay of a switch before the queue, ns."""
    jitter_ns: int = Field(default=_DEFAULT.jitter_ns, ge=0, le=MAX_DELAY_NS)
    """Maximum random delay added in a switch, ns."""
    loss: float = Field(default=_DEFAULT.loss, ge=0, le=1)
    """Probability that a link between switches loses a packet."""
    mtu: int = Field(default=_DEFAULT.mtu, ge=576, le=65535)
    """Longest IP packet inside the fabric, bytes."""
    export_ns: int = Field(default=_DEFAULT.export_ns, ge=0, le=MAX_DELAY_NS)
    """Delay from the last hop to the controller, ns (T_u)."""
    control_ns: int = Field(default=_DEFAULT.control_ns, ge=0, le=MAX_DELAY_NS)
    """Delay from the controller to a switch, ns."""


class TrafficSettings(Section):
    """Senders, rates and destinations."""

    pattern: Literal["senders", "uniform", "flows"] = "senders"
    """`senders`: some hosts send, each packet to a random other host, as in the paper; `uniform`: all hosts
    send like this; `flows`: flows with measured sizes start at random between random hosts, as in `hopscope
    simulate`.
    """
    senders: tuple[str, ...] = ()
    """`senders`: host names; empty: the first and the last host."""
    rate: float = Field(default=5e6, gt=0, le=1e12)
    """Rate of each sender, bit/s of IP packets."""
    size: int = Field(default=1000, ge=40, le=65535)
    """IP bytes of a packet."""
    random: bool = False
    """Exponential gaps between packets instead of equal ones."""
    destinations: int = Field(default=0, ge=0)
    """Number of destinations of a sender, drawn once; 0: all other hosts, which are too many paths above k =
    16.
    """
    tracked: int = Field(default=0, ge=0)
    """One in this many packets of a sender is tracked: labelled at every switch; 0: none."""
    flows: int = Field(default=200, ge=1, le=100_000)
    """`flows`: mean number of concurrent flows."""
    load: float = Field(default=0.1, gt=0, lt=1)
    """`flows`: load as a share of the hosts' link rate."""
    sizes: Literal["web-search", "data-mining"] = "web-search"
    """`flows`: flow size distribution."""


class PlotSettings(Section):
    """The plot: mean over the seeds, with error bars for the standard deviation."""

    x: str = ""
    """Column on the x axis; empty: the first swept setting."""
    y: tuple[str, ...] = Field(default=("coverage",), min_length=1, max_length=6)
    """Columns on the y axis, one panel each."""
    by: tuple[str, ...] | None = None
    """Columns that distinguish curves; default: all other swept settings."""
    over_time: tuple[Literal["coverage", "ports", "labels", "lost"], ...] = Field(
        default=("coverage",), min_length=1, max_length=4
    )
    """With `experiment.intervals`: columns plotted over time, one row of panels each."""


class Experiment(Section):
    """A file of `hopscope label run`."""

    experiment: RunSettings = RunSettings()
    network: NetworkSettings = NetworkSettings()
    traffic: TrafficSettings = TrafficSettings()
    labelling: LabellingSettings = LabellingSettings()
    adaptive: AdaptiveSettings = AdaptiveSettings()
    failure: tuple[FailureSettings, ...] = Field(default=(), max_length=MAX_EVENTS)
    """Links and switches that fail or are added."""
    loss: tuple[LossSettings, ...] = Field(default=(), max_length=MAX_EVENTS)
    """Ports that lose packets."""
    plot: PlotSettings = PlotSettings()
    sweep: dict[str, tuple[Any, ...]] = Field(default_factory=dict)
    """Lists of values by dotted key; every combination is run."""

    @field_validator("failure", "loss", mode="before")
    @classmethod
    def _several(cls, value: object, info: ValidationInfo) -> object:
        if isinstance(value, Mapping):
            name = info.field_name
            raise ValueError(f"found a table, [{name}], expected a list of tables, [[{name}]]")
        return value

    @field_validator("sweep", mode="before")
    @classmethod
    def _flat(cls, value: object) -> object:
        """Flatten the tables that TOML makes of dotted keys."""
        if not isinstance(value, Mapping):
            return value
        flat = dict(_leaves(value))
        for key, values in flat.items():
            if not isinstance(values, (list, tuple)):
                raise ValueError(f"{key}: found {values!r}, expected a list of values such as [{values!r}]")
        return flat

    @field_validator("sweep")
    @classmethod
    def _swept(cls, value: dict[str, tuple[Any, ...]], others: ValidationInfo) -> dict[str, tuple[Any, ...]]:
        tables = {name: others.data.get(name) for name in EVENTS}
        count = 1
        for key, values in value.items():
            if key.split(".")[0] in EVENTS and tables[key.split(".")[0]] is None:
                continue  # errors in the tables are already reported
            _check_key(key, {name: len(found or ()) for name, found in tables.items()})
            if not values:
                raise ValueError(f"{key}: found an empty list, expected at least one value")
            for item in values:
                _check_value(key, item, tables)
            if any(item in values[:at] for at, item in enumerate(values)):
                raise ValueError(f"{key}: found a value twice")
            count *= len(values)
        if count > MAX_RUNS:
            raise ValueError(f"found {count:,} combinations, expected at most {MAX_RUNS:,}")
        return value

    def runs(self) -> list[Run]:
        """Every combination of the swept values with every seed, in the order of the file."""
        found = []
        for values in product(*self.sweep.values()):
            tree = self.model_dump(include={*SECTIONS, *EVENTS}, mode="json")
            for key, value in zip(self.sweep, values, strict=True):
                section, *place, name = key.split(".")
                table = tree[section][int(place[0])] if place else tree[section]
                table[name] = value
            update: dict[str, Any] = {n: KINDS[n].model_validate(tree[n]) for n in SECTIONS}
            update |= {n: tuple(kind.model_validate(item) for item in tree[n]) for n, kind in EVENTS.items()}
            run = self.model_copy(update=update)
            found += [Run(run, seed) for seed in range(1, self.experiment.seeds + 1)]
        return found


SECTIONS = ("experiment", "network", "traffic", "labelling", "adaptive")
KINDS: dict[str, type[Section]] = {
    "experiment": RunSettings, "network": NetworkSettings, "traffic": TrafficSettings,
    "labelling": LabellingSettings, "adaptive": AdaptiveSettings,
}  # fmt: skip
UNSWEPT = ("experiment.name", "experiment.seeds", "experiment.processes", "experiment.intervals")
"""Settings that are the same in all runs, and not columns of the results."""


@dataclass(frozen=True, slots=True)
class Run:
    """One simulation: one point of the sweep, and a seed."""

    settings: Experiment
    seed: int

    def parameters(self) -> dict[str, Any]:
        """Every setting by its dotted key, and the seed: the first columns of a row of results."""
        tree = self.settings.model_dump(include={*SECTIONS, *EVENTS}, mode="json")
        flat = {f"{name}.{key}": value for name in SECTIONS for key, value in tree[name].items()}
        flat |= {
            f"{name}.{place}.{key}": value
            for name in EVENTS
            for place, table in enumerate(tree[name])
            for key, value in table.items()
        }
        return {key: _cell(value) for key, value in flat.items() if key not in UNSWEPT} | {"seed": self.seed}


def sweepable(tables: Mapping[str, int] | None = None) -> list[str]:
    """Dotted keys that may be swept; `tables`: number of tables of each of KINDS in the file."""
    keys = [f"{name}.{key}" for name, kind in KINDS.items() for key in kind.model_fields]
    for name, count in (tables or {}).items():
        keys += [f"{name}.{place}.{key}" for place in range(count) for key in EVENTS[name].model_fields]
    return [key for key in keys if key not in UNSWEPT]


def _cell(value: Any) -> Any:
    return " ".join(map(str, value)) if isinstance(value, (list, tuple)) else value


def _leaves(tree: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def _check_key(key: str, tables: Mapping[str, int]) -> None:
    keys = sweepable(tables)
    if key in keys:
        return
    section = key.split(".")[0]
    if section in EVENTS:
        few = f"{section}.0 to {section}.{tables[section] - 1}" if tables[section] else f"no [[{section}]]"
        names = ", ".join(EVENTS[section].model_fields)
        raise ValueError(
            f"{key} cannot be swept: expected {section}.NUMBER.KEY; the file has {few}, keys are {names}"
        )
    close = difflib.get_close_matches(key, keys, n=1, cutoff=0.5)
    hint = f"; did you mean {close[0]}?" if close else f"; known are {', '.join(keys)}"
    raise ValueError(f"{key} cannot be swept{hint}")


def _check_value(key: str, value: object, tables: Mapping[str, Any]) -> None:
    section, *place, name = key.split(".")
    try:
        if place:
            table = tables[section][int(place[0])]
            EVENTS[section].model_validate(table.model_dump() | {name: value})
        else:
            KINDS[section].model_validate({name: value})
    except ValidationError as error:
        said = expected(error.errors()[0])
        found = "" if said.startswith("found") else f"found {value!r}, "
        raise ValueError(f"{key}: {found}{said}") from None
