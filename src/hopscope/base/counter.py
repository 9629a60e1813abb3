"""A counter's declaration: name, meaning, and where its process keeps the value.

Each room declares a list of its counters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

_BASE_UNITS = (("_ns_total", "_seconds_total", 1e-9), ("_permille", "_ratio", 1e-3))
"""Units that programs count in, and Prometheus' base units: ending, ending there, factor."""


@dataclass(frozen=True, slots=True)
class Counter:
    """One counter, a uint64 in a region or a block."""

    name: str
    """Name without the `hopscope_` prefix; its ending names the unit that is counted in."""
    help: str
    label: tuple[str, str] | None = None
    """Name and value of the one label, if the counter is one of a family."""
    of: str | None = None
    """Path from the object that owns the counters to the value, as `table.late`; see `Sources`. None: the
    program adds to the counter itself.
    """
    tally: str | None = None
    """Slot of a kernel's tally that is added to the counter, as `flows.LOST`; see `tally_slots`."""
    gauge: bool = False
    """The value can decrease."""
    highest: bool = False
    """Of several processes, the highest value counts, not the sum."""
    absolute: bool = False
    """The value at `of` outlives the process: a restarted process must not add what was counted before it."""

    @property
    def key(self) -> str:
        """`name`, or `name.value` in a family: how Python code addresses the counter."""
        return f"{self.name}.{self.label[1]}" if self.label else self.name

    @property
    def metric(self) -> str:
        """Prometheus name, in base units."""
        name = self.name
        for ending, base, _ in _BASE_UNITS:
            if name.endswith(ending):
                name = name.removesuffix(ending) + base
        return f"hopscope_{name}"

    def exposed(self, count: float) -> float:
        """A count in the unit of `metric`."""
        return next(
            (count * factor for ending, _, factor in _BASE_UNITS if self.name.endswith(ending)), count
        )


def family(
    name: str,
    help: str,
    label: str,
    values: Mapping[str, object] | Iterable[str],
    of: str | None = None,
    tally: str | None = None,
    gauge: bool = False,
) -> tuple[Counter, ...]:
    """Counters that differ by the value of one label.

    `values`: the label's values; as a mapping, each with its place below `of` or `tally` (default: the value
    itself).
    """
    places = values if isinstance(values, Mapping) else {value: value for value in values}
    return tuple(
        Counter(
            name,
            help,
            (label, value),
            of=None if of is None else f"{of}.{place}",
            tally=None if tally is None else f"{tally}.{place}",
            gauge=gauge,
        )
        for value, place in places.items()
    )


def late_kernels(process: str = "") -> Counter:
    """The counter of late kernels of a process; `process` begins its name, as `nic_`."""
    return Counter(
        f"{process}late_kernels_total",
        "Kernels that were first called while frames waited: compiled or loaded late.",
        of="late_kernels",
    )


class Sources:
    """Where the values of counters are: the paths in their declarations, shared parts followed once."""

    def __init__(self, counters: Iterable[Counter]) -> None:
        self._root = _Branch()
        for number, counter in enumerate(counters):
            if counter.of is None:
                continue
            branch = self._root
            for part in counter.of.split("."):
                branch = branch.parts.setdefault(part, _Branch())
            branch.numbers.append(number)

    def read(self, owner: object) -> dict[int, int]:
        """Values by the number of their counter.

        Methods on the way are called. A counter is left out if something on its way is None, as the client
        of a server that the settings do not name. Raises AttributeError, KeyError or IndexError: no such
        path.
        """
        found = dict[int, int]()
        _read(self._root, owner, found)
        return found


@dataclass(slots=True)
class _Branch:
    """A place in paths: the counters whose value is there, and where paths go on."""

    numbers: list[int] = field(default_factory=list)
    parts: dict[str, _Branch] = field(default_factory=dict)


def _read(branch: _Branch, value: Any, found: dict[int, int]) -> None:
    """Add the values of a branch to `found`; `value` is what is there."""
    is_mapping = isinstance(value, Mapping)
    for part, following in branch.parts.items():
        if is_mapping:
            inner = value[part]
        else:
            inner = value[int(part)] if part.isdecimal() else getattr(value, part)
        if callable(inner):
            inner = inner()
        if inner is None:
            continue
        for number in following.numbers:
            found[number] = int(inner)
        if following.parts:
            _read(following, inner, found)
