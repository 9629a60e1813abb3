"""Answers of a member's history as JSON: tables and distributions, validated when received."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ...detect.distributions.quantiles import Distribution
from ...detect.sink.records import Measure
from ...history.reading.table import Table, plain
from .parts import Answer, DamagedAnswerError

Row: TypeAlias = dict[str, Any]
_TEXTS = "time first last bucket kind metric src dst"
_INTEGERS = """
    shard sequence node_id port ident events highest sport dport proto packets path_changes drops
    highest_latency worst_node_id worst_port worst_latency flow_id value previous latest
    next_node_id flows ends alarms
"""
_REALS = "mean mean_latency lowest"
_TYPES: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(_TEXTS.split(), (str,)),
    **dict.fromkeys(_INTEGERS.split(), (int,)),
    **dict.fromkeys(_REALS.split(), (int, float)),
}
"""Types of the columns that the merging rules read; NULL is None."""
_PLACES = ("node", "port", "queue", "since_ns", "until_ns")
_MEASURES = {measure.label: measure for measure in Measure}


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a member."""

    rows: list[Row]
    columns: tuple[str, ...]
    truncated: bool
    problems: tuple[str, ...]
    """Its damaged files, one line each."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Distributions of a member."""

    distributions: list[Distribution]
    problems: tuple[str, ...]


def encode(found: Table | list[Distribution], problems: Sequence[str]) -> bytes:
    """The body of an answer."""
    if isinstance(found, Table):
        columns = {name: plain(column) for name, column in found.columns.items()}
        body = {"columns": columns, "truncated": found.truncated}
    else:
        body = {"distributions": [_fields(each) for each in found]}
    return json.dumps(body | {"problems": list(problems)}, separators=(",", ":")).encode()


def read_rows(answer: Answer) -> Rows:
    """Rows of an answer, with the types checked by the columns' names. Raises DamagedAnswerError."""
    return _rows(answer, _TYPES)


def read_any_rows(answer: Answer) -> Rows:
    """Rows of an answer to a user's SELECT. Raises DamagedAnswerError."""
    return _rows(answer, {})


def _rows(answer: Answer, types: Mapping[str, tuple[type, ...]]) -> Rows:
    body = _body(answer)
    columns = body.get("columns")
    if not isinstance(columns, dict) or not all(isinstance(each, list) for each in columns.values()):
        raise DamagedAnswerError("its answer is damaged: found no columns")
    if len({len(column) for column in columns.values()}) > 1:
        raise DamagedAnswerError("its answer is damaged: its columns have different lengths")
    for name in types.keys() & columns.keys():
        if not {*map(type, columns[name])} <= {*types[name], type(None)}:
            raise DamagedAnswerError(f"its answer is damaged: column {name} has values of another type")
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return Rows(rows, tuple(columns), body.get("truncated") is True, _problems(body))


def read_distributions(answer: Answer) -> Counts:
    """Distributions of an answer. Raises DamagedAnswerError."""
    body = _body(answer)
    try:
        return Counts([_distribution(each) for each in body["distributions"]], _problems(body))
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise DamagedAnswerError(f"its answer is damaged: no distributions: {error}") from None


def table_of(rows: Sequence[Row], columns: Sequence[str], *, truncated: bool) -> Table:
    """A table of rows, with times as text, as in `Table.rows`."""
    found = {}
    for name in columns:
        column = np.empty(len(rows), object)
        column[:] = [row.get(name) for row in rows]
        found[name] = column
    return Table(found, truncated)


def _body(answer: Answer) -> dict[str, Any]:
    try:
        body = json.loads(answer.body)
    except (ValueError, RecursionError):
        raise DamagedAnswerError("its answer is damaged: it is not JSON") from None
    if not isinstance(body, dict):
        raise DamagedAnswerError("its answer is damaged: it is no object")
    return body


def _problems(body: Mapping[str, Any]) -> tuple[str, ...]:
    found = body.get("problems")
    lines = found if isinstance(found, list) else []
    return tuple(" ".join(line.split())[:1000] for line in lines[:1000] if isinstance(line, str))


def _fields(one: Distribution) -> dict[str, Any]:
    return {
        "measure": one.measure.label,
        "bins": [one.lower.tolist(), one.upper.tolist(), one.counts.tolist()],
        **{name: getattr(one, name) for name in ("sum", "highest", *_PLACES)},
    }


def _distribution(one: Mapping[str, Any]) -> Distribution:
    """Decode one distribution; raises the exceptions caught above."""
    lower, upper, counts = (np.array(column, np.uint64) for column in one["bins"])
    if not len(lower) == len(upper) == len(counts) or lower.ndim != 1 or (lower > upper).any():
        raise ValueError("bins that are none")
    places = {name: None if one[name] is None else _whole(one[name]) for name in _PLACES}
    return Distribution(
        _MEASURES[one["measure"]], lower, upper, counts, _whole(one["sum"]), _whole(one["highest"]), **places
    )


def _whole(value: object) -> int:
    if type(value) is not int or not 0 <= value < 2**96:
        raise ValueError("a number that is none")
    return value
