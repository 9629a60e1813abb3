"""Key-Write: empty returns and return errors (DTA §4 equations 1-4, appendix A.5; DART §4).

The model of the papers: slots are many, hash functions independent, later keys distinct, so each of a key's N
slots is overwritten with p = 1 - exp(-αN) (Poisson), and the overwriting key has its checksum with 2^-b.
Values under a false checksum are assumed to differ from the key's and from each other: the papers'
pessimistic case, and exact for wide values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from math import comb

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_SURE = 40.0
"""Overwrites per slot after which no copy is left: exp(-40) is below the precision of a double."""
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(96)
_NODES, _WEIGHTS = (_NODES + 1) / 2, _WEIGHTS / 2


class Rule(StrEnum):
    """How a query chooses between slots with the key's checksum."""

    PLURALITY = "plurality"
    """The most frequent value; none if two are equally frequent."""
    SINGLE = "single"
    """The value if there is only one; equations 1-4 assume this rule."""
    NEWEST = "newest"
    """The value of the lowest copy."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Probabilities of the results of a query for a reported key; their sum is 1."""

    correct: Floats
    """The value that was reported."""
    wrong: Floats
    """Another value: the return error."""
    empty: Floats
    """No value: no slot has the checksum, or fewer agree than required."""
    conflict: Floats
    """No value, since several values claim to be the key's."""

    @property
    def unanswered(self) -> Floats:
        """The papers' empty return: empty or conflict."""
        return self.empty + self.conflict


def check_match(bits: float) -> float:
    """Probability that another key has the same checksum of b bits: 2^-b."""
    return float(np.exp2(-float(bits)))


def used_bits(bits: int) -> float:
    """Effective bits of a checksum: it is never 0, so there are 2^b - 1."""
    return float(np.log2(2.0**bits - 1))


def _check(copies: int) -> None:
    if copies < 1:
        raise ValueError(f"{copies} copies, expected 1 or more")


def _slots(age: npt.ArrayLike, copies: int) -> tuple[Floats, Floats]:
    """Probability that a slot is overwritten, 1 - exp(-αN), and that it is not."""
    _check(copies)
    rate = np.asarray(age, np.float64) * copies
    return -np.expm1(-rate), np.exp(-rate)


def at_least_one(match: float, tries: int) -> float:
    """1 - (1 - match)^tries, exact for tiny `match`."""
    return float(-np.expm1(tries * np.log1p(-match))) if match < 1 else 1.0


def two_or_more(match: float, tries: int) -> float:
    """1 - (1 - match)^tries - tries match (1 - match)^(tries - 1), as the sum of its positive terms."""
    return float(sum(comb(tries, i) * match**i * (1 - match) ** (tries - i) for i in range(2, tries + 1)))


def terms(age: npt.ArrayLike, copies: int, match: float) -> tuple[Floats, Floats, Floats]:
    """Equations 1-3 (and 9-11); `match` is the probability that an overwritten slot matches the key.

    All overwritten and none matches; all overwritten and several match; not all overwritten and one matches.
    """
    lost, kept = _slots(age, copies)
    all_lost = lost**copies
    some = np.zeros_like(lost)
    for j in range(1, copies):
        some += comb(copies, j) * lost**j * kept ** (copies - j) * at_least_one(match, j)
    return all_lost * (1 - match) ** copies, all_lost * two_or_more(match, copies), some


def empty_terms(age: npt.ArrayLike, copies: int, bits: float) -> tuple[Floats, Floats, Floats]:
    """The three terms whose sum bounds the probability of an empty return (DTA equations 1, 2, 3)."""
    return terms(age, copies, check_match(bits))


def empty_bounds(age: npt.ArrayLike, copies: int, bits: float) -> tuple[Floats, Floats]:
    """Lower and upper bound of an empty return (DTA A.5, DART §4): with and without equation 2.

    The papers print the two sums for conflicts only; equation 1 belongs to both bounds.
    """
    none, several, one = empty_terms(age, copies, bits)
    return none + one, none + several + one


def error_bound(age: npt.ArrayLike, copies: int, bits: float) -> Floats:
    """Bound of a return error (DTA equation 4): (1 - exp(-αN))^N N 2^-b."""
    return _slots(age, copies)[0] ** copies * (copies * check_match(bits))


def error_bounds(age: npt.ArrayLike, copies: int, bits: float) -> tuple[Floats, Floats]:
    """Lower and upper bound of a return error (DTA A.5, DART §4): one slot matches, at least one matches."""
    match = check_match(bits)
    all_lost = _slots(age, copies)[0] ** copies
    return all_lost * (copies * match * (1 - match) ** (copies - 1)), all_lost * at_least_one(match, copies)


def outcomes(
    age: npt.ArrayLike,
    copies: int,
    bits: float,
    rule: Rule | str = Rule.PLURALITY,
    consensus: int = 1,
) -> Outcomes:
    """Query outcomes for a key of this age; `consensus`: copies that must agree."""
    return matched(age, copies, check_match(bits), Rule(rule), consensus)


def matched(age: npt.ArrayLike, copies: int, match: float, rule: Rule, consensus: int = 1) -> Outcomes:
    """Query outcomes if an overwritten slot matches the key with probability `match`."""
    lost, kept = _slots(age, copies)
    sums = {name: np.zeros_like(lost) for name in ("correct", "wrong", "empty", "conflict")}
    for own in range(copies + 1):
        survive = comb(copies, own) * kept**own * lost ** (copies - own)
        for false in range(copies - own + 1):
            claim = comb(copies - own, false) * match**false * (1 - match) ** (copies - own - false)
            first = own / (own + false) if rule is Rule.NEWEST and own and false else 1.0
            sums[verdict(own, false, rule, consensus)] += survive * claim * first
            if first < 1:  # the lowest copy is another key's
                sums[_not_first(own, consensus)] += survive * claim * (1 - first)
    return Outcomes(**sums)


def verdict(own: int, false: int, rule: Rule, consensus: int = 1) -> str:
    """Result if `own` slots hold the key's value and `false` other slots match with different values.
    NEWEST: for the case that the lowest matching slot is the key's own, if it has one.
    """
    if rule is Rule.SINGLE and (own > 0) + false > 1:
        return "conflict"
    if max(own, min(false, 1)) < consensus:
        return "empty"
    if rule is Rule.NEWEST:
        return "wrong" if not own else "correct" if own >= consensus else "empty"
    if own and (not false or own > 1):
        return "correct"
    return "conflict" if own + false > 1 else "wrong"


def _not_first(own: int, consensus: int) -> str:
    """Result by NEWEST if the lowest matching slot is not one of the key's own."""
    return "wrong" if consensus <= 1 else "conflict" if own >= consensus else "empty"


def stranger(copies: int, bits: float) -> float:
    """Upper bound of the probability that an unreported key gets an answer:

    1 - (1 - 2^-b)^N. The true one is lower by the share of unwritten slots, whose zeros match no checksum.
    """
    return at_least_one(check_match(bits), copies)


def average(
    load: npt.ArrayLike,
    copies: int,
    bits: float,
    rule: Rule | str = Rule.PLURALITY,
) -> Outcomes:
    """The mean of `outcomes` over all keys of a store: ages from 0 to `load` (DTA Fig. 12, DART Fig. 3)."""

    def of(age: Floats) -> Floats:
        found = outcomes(age, copies, bits, rule)
        return np.stack([found.correct, found.wrong, found.empty, found.conflict])

    return Outcomes(*mean_over_ages(of, load, copies))


def mean_over_ages(of: Callable[[Floats], Floats], load: npt.ArrayLike, copies: int) -> Floats:
    """Mean of a function of the age over [0, load], by Gauss-Legendre; its last axis is the age's."""
    loads = np.asarray(load, np.float64)
    if (loads < 0).any():
        raise ValueError("a load below 0")
    flat = np.maximum(loads.reshape(-1, 1), np.finfo(np.float64).tiny)
    young = np.minimum(flat, _SURE / copies)  # beyond it all is overwritten: the function is constant
    total = of(young * _NODES) @ _WEIGHTS * (young / flat)[:, 0]
    total = total + of(young + (flat - young) * _NODES) @ _WEIGHTS * (1 - young / flat)[:, 0]
    return np.asarray(total.reshape(*total.shape[:-1], *loads.shape))


def age_for(success: float, copies: int, bits: float = 32) -> float:
    """The age at which a key is still found with this probability."""
    return _largest(lambda age: float(outcomes(age, copies, bits).correct), success)


def load_for(success: float, copies: int, bits: float = 32) -> float:
    """The load at which the mean probability over all keys has this value."""
    return _largest(lambda load: float(average(load, copies, bits).correct), success)


def _largest(of: Callable[[float], float], success: float) -> float:
    if not 0 < success < 1:
        raise ValueError(f"a probability of {success:g}, expected more than 0 and less than 1")
    low, high = -60.0, 40.0  # powers of two; the functions fall from 1 to 0
    for _ in range(64):
        middle = (low + high) / 2
        if of(2.0**middle) >= success:
            low = middle
        else:
            high = middle
    return float(2.0**low)
