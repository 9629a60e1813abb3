"""Numbers of copies: repeated reports of a key (DART §3.1), the best N, write and swap (DART §7)."""

from __future__ import annotations

from math import comb

import numpy as np
import numpy.typing as npt

from .key_write import Floats, Outcomes, Rule, average, check_match, verdict


def copies_present(reports: npt.ArrayLike, copies: int) -> Floats:
    """Mean number of distinct copies after r reports that each draw one of N: N (1 - (1 - 1/N)^r)."""
    return np.asarray(copies * (1 - (1 - 1 / copies) ** np.asarray(reports, np.float64)))


def distinct_copies(reports: int, copies: int) -> Floats:
    """Probability of 0, 1, … N distinct copies after `reports` reports, [copies + 1]."""
    chance = np.zeros(copies + 1)
    chance[0] = 1
    new = 1 - np.arange(copies + 1) / copies
    for _ in range(reports):
        chance = chance * (1 - new) + np.concatenate([[0], (chance * new)[:-1]])
    return chance


def success_after_reports(age: npt.ArrayLike, copies: int, reports: int) -> Outcomes:
    """Query outcomes if every key is reported `reports` times, each into one of N slots at random, with a
    checksum of 32 bits.

    A key's reports arrive together, so a later key overwrites a slot with a probability of its mean number of
    copies divided by the slots. Slots that no report reached belong to other keys, and may match like
    overwritten ones.
    """
    if reports < 1:
        raise ValueError(f"{reports} reports of a key, expected 1 or more")
    match = check_match(32)
    rate = np.asarray(age, np.float64) * float(copies_present(reports, copies))
    lost, kept = -np.expm1(-rate), np.exp(-rate)
    sums = {name: np.zeros_like(lost) for name in ("correct", "wrong", "empty", "conflict")}
    for written, chance in enumerate(distinct_copies(reports, copies)):
        for own in range(written + 1):
            survive = chance * comb(written, own) * kept**own * lost ** (written - own)
            for false in range(copies - own + 1):
                claim = comb(copies - own, false) * match**false * (1 - match) ** (copies - own - false)
                sums[verdict(own, false, Rule.PLURALITY)] += survive * claim
    return Outcomes(**sums)


def best_copies(load: npt.ArrayLike, max_copies: int = 4) -> npt.NDArray[np.int64]:
    """The N from 1 to `max_copies` with the highest success, as a mean over keys."""
    found = [average(load, n, 32).correct for n in range(1, max_copies + 1)]
    return np.asarray(np.argmax(np.stack(found), axis=0) + 1)


def optimum(max_copies: int = 4) -> list[tuple[int, float]]:
    """The best N and the load up to which it is best, from low loads to high; the last load is infinity."""
    bounds: list[tuple[int, float]] = []
    loads = np.geomspace(1e-4, 16, 400)
    best = best_copies(loads, max_copies)
    for i in np.flatnonzero(np.diff(best)):
        low, high = float(loads[i]), float(loads[i + 1])
        for _ in range(50):
            middle = (low + high) / 2
            if best_copies(middle, max_copies) == best[i]:
                low = middle
            else:
                high = middle
        bounds.append((int(best[i]), low))
    return [*bounds, (int(best[-1]), float("inf"))]


def write_swap_success(age: npt.ArrayLike, load: npt.ArrayLike) -> Floats:
    """Probability of finding a key of this age at this load: one write, and a swap into a second slot if
    empty.

    DART §7 names the variant without a formula. Each key's write and swap hit an empty slot with a
    probability equal to the share of empty slots, which is exp(-2t) at load t. A key that came at t = load -
    age has its second copy with that probability; only later writes overwrite both copies, at one slot per
    key:
    1 - (1 - exp(-age)) (1 - exp(-2 (load - age)) exp(-age)). Assumes long checksums.
    """
    age, load = np.asarray(age, np.float64), np.asarray(load, np.float64)
    return np.asarray(1 + np.expm1(-age) * (1 - np.exp(age - 2 * load)))


def write_swap_average(load: npt.ArrayLike) -> Floats:
    """The mean of `write_swap_success` over ages from 0 to load: (1 - exp(-2L)) / L - exp(-2L)."""
    load = np.asarray(load, np.float64)
    return np.asarray(-np.expm1(-2 * load) / load - np.exp(-2 * load))
