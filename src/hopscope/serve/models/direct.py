"""Models of the stores that switches write to by RDMA."""

from __future__ import annotations

from typing import Any

from .common import Model, Page, Wide


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
    """The collector that has it, if several are asked."""
    own: bool
    """Whether it is the answering collector's own; false if that one is asked by address, like others."""
    error: str | None = None
    """Why it cannot be read."""


class StoreList(Model):
    """Stores of all collectors that were asked."""

    items: list[StoreInfo]


class ListEntries(Model):
    """Entries of a list, oldest first."""

    items: list[str]
    """Data of each entry, hexadecimal."""
    decoded: list[dict[str, Any] | None] | None = None
    """Fields of each entry, if a monitor wrote it."""
    lost: int
    """Entries that were overwritten before they were read."""
    next: str
    """`after` of the next request."""


class StoreAnswers(Model):
    """Answers in the order of the keys."""

    items: list[dict[str, Any]]
    """`key`, `status` (found, empty, conflict, unreachable), the answer of the store's primitive, and in
    `decoded` the fields that its monitor decodes. Numbers above 2^53 - 1 are decimal text.
    """


class StoreOutlook(Model):
    """How full a store is, and how likely it still finds a key, by the closed forms of DTA and DART."""

    what: str
    """The unit of ages and loads: `keys`, `paths` or `entries`."""
    slots: int
    """Slots, chunks, counters or lists."""
    used: float | None
    """Share of a sample of slots that are not empty; null: does not apply to the primitive."""
    load: float | None
    """Distinct keys per slot, if each was written with the store's number of copies; null: does not apply."""
    per_second: float | None
    """Keys, paths or entries per second since the epoch began; null: its begin is unknown. Reports with fewer
    copies than the store's count as a fraction; increments that a translator combined count as one.
    """
    ages: list[float]
    """Ages: numbers of keys written after a key, ascending; for counters, numbers of keys in the store."""
    correct: list[float]
    """Probability of the right answer, by age."""
    wrong: list[float] | None
    """Probability of another key's answer, by age; null: unknown."""
    half: float | None
    """The age at which fewer than half of the keys are found; null: beyond `ages`."""


class ListInfo(Model):
    """A list of an Append store."""

    number: int
    entries: int
    """Entries ever appended, modulo 2^32."""


class ListPage(Page):
    """Part of the lists."""

    items: list[ListInfo]


class StoreCounter(Model):
    """A counter of a Key-Increment store."""

    number: int
    value: Wide


class CounterPage(Page):
    """Part of the counters that are not 0."""

    items: list[StoreCounter]
