"""Declarations of counters: name, meaning, and where their process keeps the value.

Each room declares a list of its counters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

_BASE_UNITS = (("_ns_total", "_seconds_total", 1e-9), ("_permille", "_ratio", 1e-3))
"""Units in which programs count, and Prometheus' base units: (name ending, Prometheus' ending, factor)."""


@dataclass(frozen=True, slots=True)
class Counter:
    """One counter, a uint64 in a region or a block."""

    name: str
    """Name without the prefix `hopscope_`; its ending states the unit."""
    help: str
    label: tuple[str, str] | None = None
    """Name and value of its label, if the counter belongs to a family."""
    of: str | None = None
    """Path from the object that owns the counters to the value, such as `table.late`; see `Sources`. None:
    the program itself adds to the counter.
    """
    tally: str | None = None
    """Slot of a kernel's tally that is added to the counter, such as `flows.LOST`; see `tally_slots`."""
    gauge: bool = False
    """Whether the value can decrease."""
    highest: bool = False
    """Whether the total over several processes is the highest value instead of the sum."""
    absolute: bool = False
    """Whether the value at `of` outlives the process, so that a restarted process must not add the earlier
    count to it.
    """

    @property
    def key(self) -> str:
        """The key by which Python code addresses the counter: `name`, or `name.value` in a family."""
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
        """A count, converted to the unit of `metric`."""
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
    """Counters that differ in the value of one label.

    `values`: the values of the label; a mapping gives what replaces `{}` in `of` and `tally` for each value
    (by default, the value itself).
    """
    places = values if isinstance(values, Mapping) else {value: value for value in values}
    return tuple(
        Counter(
            name,
            help,
            (label, value),
            of=of and of.format(place),
            tally=tally and tally.format(place),
            gauge=gauge,
        )
        for value, place in places.items()
    )


def late_kernels(process: str = "") -> Counter:
    """The counter of late kernels of a process; `process` is the prefix of its name, such as `nic_`."""
    return Counter(
        f"{process}late_kernels_total",
        "Kernels that were first called while frames waited: compiled or loaded late.",
        of="late_kernels",
    )


class Sources:
    """Reads the values of counters at the paths in their declarations; common parts of paths are followed
    once.
    """

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

        Methods on a path are called. A counter is left out if something on its path is None, for example the
        client of a server that is not configured. Raises AttributeError, KeyError or IndexError if a path
        does not exist.
        """
        found = dict[int, int]()
        _read(self._root, owner, found)
        return found


@dataclass(slots=True)
class _Branch:
    """A node in the tree of paths: the counters whose value is here, and the branches below."""

    numbers: list[int] = field(default_factory=list)
    parts: dict[str, _Branch] = field(default_factory=dict)


def _read(branch: _Branch, value: Any, found: dict[int, int]) -> None:
    """Add the values of a branch to `found`; `value` is the object at this branch."""
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
