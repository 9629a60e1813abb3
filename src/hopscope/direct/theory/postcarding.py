"""Postcarding (DTA §4 equations 5-8, appendix A.6 equations 9-12) and the translator's cache.

Equations 5-8 print the probability that a cell looks valid as |V| + 1·2^-b, without the brackets of equations
9-12, (|V| + 1)·2^-b; and equation 6 closes its factor before its last term. Equations 9-12 are used here.
Equation 9 also contains 1 - q, with q the probability that a chunk looks valid, where an upper bound of q
gives a lower bound of the whole: `postcard_outcomes` uses the exact q, and agrees with measurements.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .key_write import Floats, Outcomes, Rule, at_least_one, check_match, matched, terms


def cell_match(values: int, bits: float) -> float:
    """Upper bound of the probability that a cell of another flow looks valid: (|V| + 1) 2^-b, at most 1."""
    if values < 1:
        raise ValueError(f"{values} values, expected 1 or more")
    return min(1.0, (values + 1) * check_match(bits))


def chunk_match(values: int, bits: float, hops: int) -> float:
    """Probability that a chunk of another flow is a valid path: one or more values, then blanks.

    The equations use ((|V| + 1) 2^-b)^B, a value or a blank anywhere. A query accepts less: blanks only after
    values, and two values may share a code g(v), so a cell is one of |V| with 1 - (1 - 2^-b)^|V|.
    """
    blank = check_match(bits)
    value = at_least_one(blank, values)
    return float(sum(value**length * blank ** (hops - length) for length in range(1, hops + 1)))


def postcard_empty_terms(
    age: npt.ArrayLike, copies: int, bits: float, values: int, hops: int
) -> tuple[Floats, Floats, Floats]:
    """The three terms that bound the probability of no path (equations 5-7, 9-11); age is reports over
    chunks.
    """
    return terms(age, copies, cell_match(values, bits) ** hops)


def postcard_error_bound(age: npt.ArrayLike, copies: int, bits: float, values: int, hops: int) -> Floats:
    """Upper bound of the probability of a wrong path (equations 8, 12)."""
    lost = -np.expm1(-np.asarray(age, np.float64) * copies)
    return np.asarray(lost**copies * (copies * cell_match(values, bits) ** hops))


def postcard_outcomes(age: npt.ArrayLike, copies: int, bits: float, values: int, hops: int) -> Outcomes:
    """Query outcomes for a flow with all postcards written; valid chunks must not differ."""
    return matched(age, copies, chunk_match(values, bits, hops), Rule.SINGLE)


def early_emission(flows_between: npt.ArrayLike, rows: int) -> Floats:
    """Probability that a path leaves the translator's cache before its last postcard: 1 - (1 - 1/R)^F (Fig.
    14).

    `flows_between`: other flows with a postcard between this flow's first and last; `rows` are direct-mapped.
    """
    if rows < 1:
        raise ValueError(f"{rows} rows, expected 1 or more")
    between = np.asarray(flows_between, np.float64)
    if rows == 1:
        return np.where(between > 0, 1.0, 0.0)
    return np.asarray(-np.expm1(between * np.log1p(-1 / rows)))
