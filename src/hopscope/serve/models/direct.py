"""Models of the stores that switches write to by RDMA."""

from __future__ import annotations

from typing import Any

from .common import Model, Wide


class StoreInfo(Model):
    """A store that switches write to."""

    name: str
    primitive: str | None = None
    bytes: int | None = None
    epoch: int | None = None
    operations: int | None = None
    """Memory operations executed in this epoch."""
    past_epochs: list[int] | None = None
    """Past epochs that can be queried."""
    layout: dict[str, int | str | bool] | None = None
    """Layout of its memory, by the fields of its primitive."""
    collector: str | None = None
    """Which collector has it, if several are asked."""
    own: bool
    """Whether it is of the collector that answers; false if that one is asked by its address, like others."""
    error: str | None = None
    """Why it cannot be read."""


class StoreList(Model):
    """Stores of the collectors that are asked."""

    items: list[StoreInfo]


class ListEntries(Model):
    """Entries of a list, the oldest first."""

    items: list[str]
    """Data of each, hexadecimal."""
    decoded: list[dict[str, Any] | None] | None = None
    """Their fields, if they are those of a monitor."""
    lost: int
    """Entries that were overwritten before they were read."""
    next: str
    """`after` of the next request."""


class StoreAnswers(Model):
    """Answers in the order of the keys."""

    items: list[dict[str, Any]]
    """`key`, `status` (found, empty, conflict, unreachable), the answer of the store's primitive, and the
    fields that its monitor decodes as `decoded`. Numbers above 2^53 - 1 are decimal text."""


class StoreOutlook(Model):
    """How full a store is now, and what it still finds, by the closed forms of DTA and DART."""

    what: str
    """What ages and loads count: `keys`, `paths` or `entries`."""
    slots: int
    """Slots, chunks, counters or lists."""
    used: float | None
    """Share of the slots that are not empty, of a sample; null: the primitive has no such thing."""
    load: float | None
    """Distinct keys per slot, if all have taken the store's copies; null: it has none."""
    per_second: float | None
    """Keys, paths or entries per second, since the epoch began; null: the store does not say when. Reports of
    fewer copies than the store's count in part, increments that a translator combined as one."""
    ages: list[float]
    """Keys that came after this one, ascending; with counters, keys in the store."""
    correct: list[float]
    """Probability of the right answer, by age."""
    wrong: list[float] | None
    """Probability of another key's answer, by age; null: it is not known."""
    half: float | None
    """The age at which fewer than half of the keys are found; null: beyond `ages`."""


class ListInfo(Model):
    """A list of an Append store."""

    number: int
    entries: int
    """Entries that it has had, modulo 2^32."""


class ListPage(Model):
    """Part of the lists."""

    total: int
    offset: int
    items: list[ListInfo]


class StoreCounter(Model):
    """A counter of a Key-Increment store."""

    number: int
    value: Wide


class CounterPage(Model):
    """Part of the counters that are not 0."""

    total: int
    offset: int
    items: list[StoreCounter]
