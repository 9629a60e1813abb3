"""What a file of an experiment says: the fabric, its traffic, its labelling, and what is swept."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

from pydantic import Field, ValidationError, ValidationInfo, field_validator

from ....settings.errors import expected
from ....settings.label import AdaptiveSettings, LabellingSettings
from ....settings.section import Seconds, Section
from ..simulation.network import NetworkModel
from .events import KINDS as EVENTS
from .events import MAX_EVENTS, FailureSettings, LossSettings

MAX_RUNS = 100_000
LONGEST_NS = 1_000_000_000
"""Longest delay of a link, a switch, or the way to the controller, ns."""
_DEFAULT = NetworkModel()


class RunSettings(Section):
    """How long, how often, and what the results are called."""

    name: str = Field(default="experiment", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    """First part of the names of the result's files."""
    seeds: int = Field(default=3, ge=1, le=10_000)
    """Runs of every point, each with a seed of its own from 1."""
    seconds: Seconds = Field(default=10.0, gt=0)
    """Simulated time that is measured, s."""
    warm_up: Seconds = 1.0
    """Simulated time before it, of which nothing is measured, s: rounded up to whole telemetry intervals."""
    telemetry: Seconds = Field(default=0.1, gt=1e-6)
    """Telemetry interval, s: coverage is measured in each."""
    processes: int = Field(default=2, ge=1, le=2)
    """Runs at the same time."""
    intervals: bool = False
    """Also write every telemetry interval of every run: NAME.intervals.parquet, .csv and .png."""


class NetworkSettings(Section):
    """The fabric, its links and switches, and the way to the controller."""

    topology: str = "paper"
    """`paper` (4-4-4 switches, 8 hosts), `fat-tree:K`, `leaf-spine:LxS` or `leaf-spine:LxSxHOSTS`."""
    rate: float = Field(default=1e9, ge=1e3, le=1e12)
    """Rate of every link, bit/s."""
    buffer_bytes: int = Field(default=_DEFAULT.buffer_bytes, ge=1, le=2**32 - 1)
    """What the queue of one port holds, bytes."""
    propagation_ns: int = Field(default=_DEFAULT.propagation_ns, ge=0, le=LONGEST_NS)
    """Delay of a link, ns."""
    pipeline_ns: int = Field(default=_DEFAULT.pipeline_ns, ge=0, le=LONGEST_NS)
    """Delay of a switch before the queue, ns."""
    jitter_ns: int = Field(default=_DEFAULT.jitter_ns, ge=0, le=LONGEST_NS)
    """Most that chance adds to the delay of a switch, ns."""
    loss: float = Field(default=_DEFAULT.loss, ge=0, le=1)
    """Chance that a link between switches loses a packet."""
    mtu: int = Field(default=_DEFAULT.mtu, ge=576, le=65535)
    """Longest IP packet inside the fabric, bytes."""
    export_ns: int = Field(default=_DEFAULT.export_ns, ge=0, le=LONGEST_NS)
    """From the last hop to the controller, ns (T_u)."""
    control_ns: int = Field(default=_DEFAULT.control_ns, ge=0, le=LONGEST_NS)
    """From the controller to a switch, ns."""


class TrafficSettings(Section):
    """Who sends how much to whom."""

    pattern: Literal["senders", "uniform", "flows"] = "senders"
    """`senders`: some hosts send, each packet to any other host, as in the paper; `uniform`: all hosts do;
    `flows`: flows of measured sizes between random hosts begin at random, as in `hopscope simulate`.
    """
    senders: tuple[str, ...] = ()
    """`senders`: names of hosts; empty: the first and the last."""
    rate: float = Field(default=5e6, gt=0, le=1e12)
    """What each sender sends, bit/s of IP packets."""
    size: int = Field(default=1000, ge=40, le=65535)
    """IP bytes of a packet."""
    random: bool = False
    """Exponential gaps between packets instead of equal ones."""
    destinations: int = Field(default=0, ge=0)
    """Hosts that each sender sends to, drawn once; 0: all others, too many ways above k = 16."""
    tracked: int = Field(default=0, ge=0)
    """Every so many packets of a sender, one is tracked: labelled at every switch; 0: none."""
    flows: int = Field(default=200, ge=1, le=100_000)
    """`flows`: that are active at once, on average."""
    load: float = Field(default=0.1, gt=0, lt=1)
    """`flows`: share of the hosts' link rate that they send."""
    sizes: Literal["web-search", "data-mining"] = "web-search"
    """`flows`: distribution of their sizes."""


class PlotSettings(Section):
    """The picture: mean over the seeds, bars for their standard deviation."""

    x: str = ""
    """Column on the x axis; empty: the first that is swept."""
    y: tuple[str, ...] = Field(default=("coverage",), min_length=1, max_length=6)
    """Columns on the y axis, a panel each."""
    by: tuple[str, ...] | None = None
    """Columns that make a curve each; not given: all others that are swept."""
    over_time: tuple[Literal["coverage", "ports", "labels", "lost"], ...] = Field(
        default=("coverage",), min_length=1, max_length=4
    )
    """With `experiment.intervals`: what is drawn over time, a row of panels each."""


class Experiment(Section):
    """A file of `hopscope label run`."""

    experiment: RunSettings = RunSettings()
    network: NetworkSettings = NetworkSettings()
    traffic: TrafficSettings = TrafficSettings()
    labelling: LabellingSettings = LabellingSettings()
    adaptive: AdaptiveSettings = AdaptiveSettings()
    failure: tuple[FailureSettings, ...] = Field(default=(), max_length=MAX_EVENTS)
    """Links and switches that fail, or are added."""
    loss: tuple[LossSettings, ...] = Field(default=(), max_length=MAX_EVENTS)
    """Ports that lose packets."""
    plot: PlotSettings = PlotSettings()
    sweep: dict[str, tuple[Any, ...]] = Field(default_factory=dict)
    """Dotted keys to lists of values: every combination is run."""

    @field_validator("failure", "loss", mode="before")
    @classmethod
    def _several(cls, value: object, info: ValidationInfo) -> object:
        if isinstance(value, Mapping):
            name = info.field_name
            raise ValueError(f"found one table, [{name}], expected tables of a list, [[{name}]]")
        return value

    @field_validator("sweep", mode="before")
    @classmethod
    def _flat(cls, value: object) -> object:
        """TOML makes tables of dotted keys."""
        if not isinstance(value, Mapping):
            return value
        flat = dict(_leaves(value))
        for key, values in flat.items():
            if not isinstance(values, (list, tuple)):
                raise ValueError(f"{key}: found {values!r}, expected a list of values, as [{values!r}]")
        return flat

    @field_validator("sweep")
    @classmethod
    def _swept(cls, value: dict[str, tuple[Any, ...]], others: ValidationInfo) -> dict[str, tuple[Any, ...]]:
        tables = {name: others.data.get(name) for name in EVENTS}
        count = 1
        for key, values in value.items():
            if key.split(".")[0] in EVENTS and tables[key.split(".")[0]] is None:
                continue  # what is wrong with the tables is told already
            _check_key(key, {name: len(found or ()) for name, found in tables.items()})
            if not values:
                raise ValueError(f"{key}: found an empty list, expected the values to run with")
            for one in values:
                _check_value(key, one, tables)
            if any(one in values[:at] for at, one in enumerate(values)):
                raise ValueError(f"{key}: a value stands there twice")
            count *= len(values)
        if count > MAX_RUNS:
            raise ValueError(f"{count:,} combinations, at most {MAX_RUNS:,} are run: sweep fewer values")
        return value

    def runs(self) -> list[Run]:
        """Every combination of what is swept, with every seed, in the order of the file."""
        found = []
        for values in product(*self.sweep.values()):
            tree = self.model_dump(include={*SECTIONS, *EVENTS}, mode="json")
            for key, value in zip(self.sweep, values, strict=True):
                section, *place, name = key.split(".")
                table = tree[section][int(place[0])] if place else tree[section]
                table[name] = value
            update: dict[str, Any] = {n: KINDS[n].model_validate(tree[n]) for n in SECTIONS}
            update |= {n: tuple(kind.model_validate(one) for one in tree[n]) for n, kind in EVENTS.items()}
            run = self.model_copy(update=update)
            found += [Run(run, seed) for seed in range(1, self.experiment.seeds + 1)]
        return found


SECTIONS = ("experiment", "network", "traffic", "labelling", "adaptive")
KINDS: dict[str, type[Section]] = {
    "experiment": RunSettings, "network": NetworkSettings, "traffic": TrafficSettings,
    "labelling": LabellingSettings, "adaptive": AdaptiveSettings,
}  # fmt: skip
UNSWEPT = ("experiment.name", "experiment.seeds", "experiment.processes", "experiment.intervals")
"""What is the same in all runs of an experiment, and no column of its results."""


@dataclass(frozen=True, slots=True)
class Run:
    """One simulation: what an experiment says at one point of its sweep, and a seed."""

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
    """Dotted keys that may be swept, where a file has so many tables of each kind of EVENTS."""
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
    hint = f"; did you mean {close[0]}?" if close else f"; there are {', '.join(keys)}"
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
