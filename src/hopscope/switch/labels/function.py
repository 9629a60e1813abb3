"""Label functions in the programs' form: probabilities are integers, so that decisions are exact."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from ...settings.label import LabellingSettings
from .layout import MAX_CHANCES, LabelFunction

ONE = 1 << 53
"""The probability 1: a random number of 53 bits is always below it."""
_CHANCES: tuple[Literal["f1", "f2", "f2-listing", "f3"], ...] = ("f1", "f2", "f2-listing", "f3")
Words = npt.NDArray[np.uint64]


def thresholds(labelling: LabellingSettings, half: int) -> tuple[int, Words]:
    """(`function` of LABEL_CONTROL, table of probabilities in 2^-53, uint64 [labels, parts of the interval]).

    A packet gets a label if a random number of 53 bits is below the threshold. Since thresholds are rounded
    up, this is the same as comparing random / 2^53 with the probability itself.
    """
    count, last = np.arange(labelling.max_hop, dtype=np.float64), labelling.max_hop - 1
    table = {
        "f1": (count > 0).astype(np.float64),
        "f2": count / last,
        "f2-listing": count / labelling.max_hop,
        "f3": count / last,
    }[labelling.chance][:, None]
    if labelling.chance_table:
        table = np.array(labelling.chance_table, np.float64)
    function = LabelFunction.TABLE
    if labelling.algorithm == "base-a":
        function = LabelFunction.NEVER
    elif labelling.chance == "f3" and not labelling.chance_table:
        function = LabelFunction.F3
    name = _CHANCES.index(labelling.chance) | bool(labelling.chance_table) << 7
    rows, columns = table.shape
    return int(function) | half << 4 | name << 8 | columns << 16 | rows << 32, np.ceil(table * ONE).astype(
        np.uint64
    )


def labelling_of(control: np.void, chances: Words) -> LabellingSettings:
    """The settings that LABEL_CONTROL and the tables of probabilities express."""
    word, interval = int(control["function"]), int(control["interval"])
    table: tuple[tuple[float, ...], ...] = ()
    if word >> 15 & 1:
        rows, columns, first = word >> 32, word >> 16 & 0xFFFF, (word >> 4 & 1) * MAX_CHANCES
        values = chances[first : first + rows * columns].astype(np.float64).reshape(rows, columns) / ONE
        table = tuple(map(tuple, values.tolist()))
    return LabellingSettings(
        algorithm="base-a" if word & 15 == LabelFunction.NEVER else "base-b",
        interval=interval / 1e9,
        chance=_CHANCES[word >> 8 & 127],
        chance_table=table,
        rest=int(control["rest"]) / interval,
        max_hop=int(control["max_hop"]),
        protocol=int(control["protocol"]),
    )
