"""Errors of Key-Increment and of HyperLogLog, and the age of entries in the lists of Append.

Key-Increment is a Count-Min sketch whose N functions share one array. A sketch of N rows of M/N counters and
one array of M counters in which every key increments N have the same mean excess per counter, N W / M for
other keys' counts of W in total, and so the same bound.
"""

from __future__ import annotations

from math import ceil, e, log, sqrt

import numpy as np
import numpy.typing as npt

from .key_write import Floats


def increment_exact(load: npt.ArrayLike, copies: int) -> Floats:
    """Probability that a count is exact: no other key shares one of its N counters; load is keys over
    counters.
    """
    shared = -np.expm1(-np.asarray(load, np.float64) * copies)
    return np.asarray(1 - shared**copies)


def increment_error_chance(excess: npt.ArrayLike, counters: int, copies: int, total: float) -> Floats:
    """Upper bound of the probability to overestimate by `excess` or more: (N W / (M excess))^N, by Markov's
    inequality.

    `total`: W, the counts of all other keys. With excess = e N W / M it is e^-N, the Count-Min guarantee.
    """
    ratio = copies * total / (counters * np.asarray(excess, np.float64))
    return np.asarray(np.minimum(1.0, ratio) ** copies)


def increment_excess(load: float, copies: int) -> float:
    """Mean overestimate if every key counts 1: the mean minimum of N Poisson numbers of mean load N."""
    mean = load * copies
    mass = np.exp(-mean)
    tail, total, number = -np.expm1(-mean), 0.0, 0
    while tail > 1e-15:
        total += tail**copies
        number += 1
        mass *= mean / number
        tail -= mass
    return float(total)


def increment_size(error: float, chance: float) -> tuple[int, int]:
    """Counters and copies for overestimates above `error` times all counts with at most this probability.

    N = ln(1/chance), M = e N / error, both rounded up.
    """
    if not 0 < error < 1 or not 0 < chance < 1:
        raise ValueError(f"an error of {error:g} with a chance of {chance:g}, expected between 0 and 1")
    copies = ceil(log(1 / chance))
    return ceil(e * copies / error), copies


def cardinality_error(registers: int) -> float:
    """Relative standard error of HyperLogLog: 1.04 / sqrt(m)."""
    if registers < 16:
        raise ValueError(f"{registers} registers, expected 16 or more")
    return 1.04 / sqrt(registers)


def append_age(batch: int, batches: int) -> int:
    """Later entries of its list after which the last entry of a batch is overwritten: the ring's length.

    Earlier entries of the batch are overwritten with it. Batches sent before they were full shorten this age.
    """
    return batch * batches


def append_wait(batch: int) -> int:
    """Maximum later entries of its list for which an entry waits in the translator."""
    return batch - 1
