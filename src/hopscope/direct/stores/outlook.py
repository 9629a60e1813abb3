"""How full a store is, and the probability that a query still finds a key of a given age (`direct.theory`).

The fill level is taken from a sample of its slots: a slot is empty while all its bytes are 0. With N copies
of L keys per slot, a share of 1 - exp(-N L) is not empty, which gives L, the distinct keys per slot, as long
as some slots are empty. Above that, L is estimated from the number of writes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..primitives.append_layout import AppendLayout
from ..primitives.key_increment import KeyIncrementLayout
from ..primitives.key_write import KeyWriteLayout, Variant
from ..primitives.postcarding_layout import PostcardingLayout
from ..theory import (
    Rule,
    append_age,
    increment_exact,
    outcomes,
    postcard_outcomes,
    used_bits,
    write_swap_success,
)
from .store import BEGUN_NS, ENDED_NS, WRITES, Store

SAMPLE = 1 << 16
"""Number of slots in the sample."""
FULL = 0.999
"""Above this share of used slots, the share no longer allows an estimate of the number of keys."""
POINTS = 65
"""Number of points of a curve."""
VALUES = 1024
"""Postcarding: default number of values that a hop can have."""
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Outlook:
    """How full a store is, and the probability that a query still finds its keys."""

    what: str
    """Unit of ages and loads: `keys`, `paths` or `entries`."""
    slots: int
    used: float | None
    """Share of the sampled slots that are not empty; None: does not apply to the primitive."""
    load: float | None
    """Distinct keys per slot, assuming that all have the store's number of copies; None: does not apply."""
    per_second: float | None
    """Keys, paths or entries per second since the epoch began; None: the store does not say when it began. A
    report with fewer copies than the store's counts in part; increments that a translator combined count as
    one.
    """
    ages: list[float]
    """Ages, ascending: number of keys written after a key; for counters: number of keys in the store."""
    correct: list[float]
    """Probability of the right answer, by age."""
    wrong: list[float] | None
    """Probability of another key's answer; None: unknown."""
    half: float | None
    """The age at which half of the keys are still found; None: beyond `ages`."""


def outlook(store: Store, values: int = VALUES) -> Outlook:
    """The outlook of a store. `values`: for Postcarding, values that a hop can have."""
    layout = store.layout
    if isinstance(layout, AppendLayout):
        return _of_lists(store, layout)
    if not isinstance(layout, KeyWriteLayout | PostcardingLayout | KeyIncrementLayout):
        return Outlook("keys", layout.count, _used(store), None, None, [], [], None, None)
    used = _used(store)
    reported = int(store.state[WRITES]) / layout.copies
    load = -np.log1p(-used) / layout.copies if used < FULL else reported / layout.count
    find, what = _finder(layout, float(load), values)
    # up to the age at which almost no key is found
    ages = np.linspace(0.0, max(4.0, 1.25 * load) if load > 0 else 4.0, POINTS)
    correct, wrong = find(ages)
    below = np.flatnonzero(correct < 0.5)
    return Outlook(
        what,
        layout.count,
        used,
        float(load),
        _rate(store, reported),
        (ages * layout.count).tolist(),
        correct.tolist(),
        None if wrong is None else wrong.tolist(),
        float(ages[below[0]] * layout.count) if len(below) else None,
    )


def _finder(
    layout: KeyWriteLayout | PostcardingLayout | KeyIncrementLayout, load: float, values: int
) -> tuple[Callable[[Floats], tuple[Floats, Floats | None]], str]:
    """The function from age to the probabilities of a right and a wrong answer, and the unit of ages."""
    copies = layout.copies
    if isinstance(layout, KeyIncrementLayout):
        return lambda ages: (increment_exact(ages, copies), None), "keys"
    bits = used_bits(layout.checksum_bits)
    if isinstance(layout, PostcardingLayout):

        def paths(ages: Floats) -> tuple[Floats, Floats | None]:
            found = postcard_outcomes(ages, copies, bits, values, layout.hops)
            return found.correct, found.wrong

        return paths, "paths"
    if layout.variant is Variant.SWAP:
        return lambda ages: (write_swap_success(ages, np.maximum(ages, load)), None), "keys"
    rule = Rule.SINGLE if layout.drawn else Rule.NEWEST

    def keys(ages: Floats) -> tuple[Floats, Floats | None]:
        found = outcomes(ages, copies, bits, rule)
        return found.correct, found.wrong

    return keys, "keys"


def _of_lists(store: Store, layout: AppendLayout) -> Outlook:
    """Outlook of lists: an entry exists until its ring has wrapped, so the probability is a step."""
    from .browse import entries_of

    life = append_age(layout.batch, layout.batches)
    written = int(entries_of(store, 0, layout.lists).sum())
    return Outlook(
        "entries",
        layout.lists,
        None,
        None,
        _rate(store, written),
        [0.0, float(life), float(life), 1.25 * life],
        [1.0, 1.0, 0.0, 0.0],
        None,
        float(life),
    )


def _used(store: Store) -> float:
    """Share of slots that are not empty, from at most SAMPLE evenly spaced slots."""
    layout = store.layout
    count, stride = layout.count, layout.stride
    slots = store.memory[: count * stride].reshape(count, stride)
    step = -(-count // SAMPLE)
    return float(slots[::step].any(axis=1).mean())


def _rate(store: Store, count: float) -> float | None:
    """A count divided by the seconds since the epoch began; None: its beginning is unknown."""
    if not store.state[BEGUN_NS]:
        return None
    end = int(store.state[ENDED_NS]) or time.time_ns()
    return count / max(1e-3, (end - int(store.state[BEGUN_NS])) / 1e9)
