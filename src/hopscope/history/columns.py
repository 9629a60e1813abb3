"""Events as a table with readable columns: those of segments and of the view `events`.

`schema` says what each column means.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..detect.records import EVENT, NO_NODE, NO_PORT, PATH_PART, ClearReason, Kind, Metric
from ..wire.address import address
from ..wire.records import Records

if TYPE_CHECKING:
    import duckdb

COLUMNS = (
    ("time", "TIMESTAMP_NS"),
    ("kind", "VARCHAR"),
    ("metric", "VARCHAR"),
    ("node_id", "UINTEGER"),
    ("port", "USMALLINT"),
    ("ident", "UINTEGER"),
    ("value", "UBIGINT"),
    ("previous", "UBIGINT"),
    ("reason", "VARCHAR"),
    ("switch_ns", "UBIGINT"),
    ("flow_id", "UBIGINT"),
    ("src", "VARCHAR"),
    ("dst", "VARCHAR"),
    ("sport", "USMALLINT"),
    ("dport", "USMALLINT"),
    ("proto", "UTINYINT"),
    ("path", "UINTEGER[]"),
    ("hop", "UTINYINT"),
    ("hop_count", "UTINYINT"),
    ("src_hi", "UBIGINT"),
    ("src_lo", "UBIGINT"),
    ("dst_hi", "UBIGINT"),
    ("dst_lo", "UBIGINT"),
    ("ip_version", "UTINYINT"),
    ("shard", "USMALLINT"),
    ("sequence", "UBIGINT"),
)
"""Name and DuckDB type of every column, in order."""
NAMES = ", ".join(name for name, _ in COLUMNS)
_FIELDS = {
    "time": ("time_ns",),
    "reason": ("kind", "reason"),
    "src": ("src_hi", "src_lo"),
    "dst": ("dst_hi", "dst_lo"),
    **{name: (name, "ip_version") for name in ("sport", "dport", "proto")},
    "path": ("kind", "metric", "hop", "hop_count", "path"),
}
"""Fields of EVENT from which a column is made; others have the name of their field."""
PORT = f"coalesce(port, CASE metric WHEN '{Metric.LINK_UTILIZATION.label}' THEN nullif(ident, {NO_PORT}) END)"
"""SQL for the egress port of an event, as `detect.places.ports_of_events`."""

_QUICK = """SET disabled_optimizers = 'join_order,statistics_propagation';
SET GLOBAL prefetch_all_parquet_files = true"""
"""These optimizers read the statistics of every row group of every column, which takes a quarter of the CPU
time of fetching the rows of a page, and speed up no query of `reading`. Without prefetching, DuckDB reads the
header of each page byte by byte, by 22,000 system calls for a page of a long flow, a tenth of its CPU time.
"""


def connect(
    memory_bytes: int, threads: int, *, unsigned: bool = False, quick: bool = False
) -> duckdb.DuckDBPyConnection:
    """An in-memory DuckDB without extensions, access to Python variables, or temporary files. With `unsigned`
    it loads extensions without checking their signatures. With `quick` it reads few rows of many columns
    with less CPU time, see _QUICK.
    """
    import duckdb  # takes 0.1 s, which only readers of history should spend

    connection = duckdb.connect(
        config={
            "memory_limit": f"{memory_bytes}B",
            "threads": threads,
            "temp_directory": "",
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_community_extensions": False,
            "allow_unsigned_extensions": unsigned,
            "python_enable_replacements": False,
        }
    )
    connection.execute("SET parquet_metadata_cache = true")
    # Linux's page cache already holds the files; a second copy used up the memory limit and saved no time.
    connection.execute("SET enable_external_file_cache = false")
    # DuckDB prints progress after 2 s even if the output is no terminal: into logs, and into JSON
    connection.execute("SET enable_progress_bar = false")
    # event times are in UTC, so now()::TIMESTAMP must be too; GLOBAL: also for cursors
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    if quick:
        connection.execute(_QUICK)
    return connection


def quoted(path: Path | str) -> str:
    """A SQL string literal."""
    return "'" + str(path).replace("'", "''") + "'"


def named_in(sql: str) -> tuple[str, ...]:
    """The COLUMNS whose names occur in a statement, in order."""
    words = set(re.findall(r"\w+", re.sub("'[^']*'", "", sql)))
    return tuple(name for name, _ in COLUMNS if name in words)


def fields_of(names: Iterable[str], texts: bool) -> set[str]:
    """The fields of EVENT from which `register` makes these columns."""
    without = () if texts else ("src", "dst")
    return {field for name in names if name not in without for field in _FIELDS.get(name, (name,))}


def register(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    events: Records | Mapping[str, npt.NDArray[Any]],
    texts: bool = True,
    names: Collection[str] = tuple(name for name, _ in COLUMNS),
) -> str:
    """Register EVENT records, or the columns `fields_of` these `names`, as table `name`; returns the SELECT
    of the COLUMNS `names` from it.

    Without `texts`, addresses are given only as numbers: `src` and `dst` are NULL.
    """
    connection.register(name, _raw(events))
    joins = ""
    text = {"src": "NULL", "dst": "NULL"}
    for side in text if texts else ():
        if side not in names:
            continue
        text[side] = _ipv4_sql(side)
        known = _ipv6_names(events, side)
        if known is not None:
            connection.register(f"{name}_{side}", known)
            joins += (
                f" LEFT JOIN {name}_{side} {side}6 ON {side}6.hi = r.{side}_hi AND {side}6.lo = r.{side}_lo"
            )
            text[side] = f"coalesce({text[side]}, {side}6.name)"
    parts = ", ".join(f"p{i}" for i in range(PATH_PART))
    has_path = f"(metric = {Metric.FLOW_PATH:d} OR kind = {Kind.LOOP:d})"
    reasons = _labels_sql("reason", {reason: reason.label for reason in ClearReason})
    in_flow = "CASE WHEN ip_version != 0 THEN {0} END"
    source = {
        "time": "make_timestamp_ns(time_ns)",
        "kind": _labels_sql("kind", {kind: kind.label for kind in Kind}),
        "metric": f"nullif({_labels_sql('metric', {metric: metric.label for metric in Metric})}, 'none')",
        "reason": f"CASE WHEN kind = {Kind.CLEARED:d} THEN {reasons} END",
        "node_id": f"nullif(node_id, {NO_NODE})",
        "port": f"nullif(port, {NO_PORT})",
        "switch_ns": "nullif(switch_ns, 0)",
        "flow_id": "nullif(flow_id, 0)",
        **text,
        **{part: in_flow.format(part) for part in ("sport", "dport", "proto")},
        "path": f"CASE WHEN {has_path} THEN list_value({parts})[:greatest(0, hop_count::INT - hop)] END",
    }
    shown = ", ".join(f"CAST({source.get(n, 'r.' + n)} AS {t}) AS {n}" for n, t in COLUMNS if n in names)
    return f"SELECT {shown} FROM {name} r{joins}"


def records_of(columns: Mapping[str, npt.NDArray[Any]]) -> Records:
    """EVENT records made from these columns, without paths; a kind or metric unknown to this version is 0."""
    events = np.zeros(len(columns["sequence"]), EVENT)
    absent = {"node_id": NO_NODE, "port": NO_PORT}
    for name in EVENT.names or ():
        if name in columns and name not in ("kind", "metric", "reason", "path"):
            events[name] = np.ma.filled(columns[name], absent.get(name, 0))
    events["time_ns"] = columns["time"].astype("datetime64[ns]").astype(np.int64)
    for name, labels in (("kind", Kind), ("metric", Metric), ("reason", ClearReason)):
        codes = {member.label: member.value for member in labels}
        events[name] = [codes.get(text, 0) for text in columns[name].tolist()]
    return events


def _raw(events: Records | Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    """Fields of the records as columns, without copying."""
    known = events if isinstance(events, Mapping) else events.dtype.names or ()
    fields: dict[str, npt.NDArray[Any]] = {
        name: events[name] for name in known if name not in ("path", "reserved")
    }
    if "path" in known:
        fields |= {f"p{i}": events["path"][:, i] for i in range(PATH_PART)}
    return fields


def _labels_sql(column: str, labels: dict[Any, str]) -> str:
    """SQL for the label of a code; the label of an unknown code contains its number, as in `kind_23`."""
    texts = ", ".join(quoted(labels.get(code, f"{column}_{code}")) for code in range(max(labels) + 1))
    return f"coalesce(list_extract([{texts}], {column}::INT + 1), concat('{column}_', {column}))"


def _ipv4_sql(side: str) -> str:
    """SQL for the text of an IPv4 address; NULL for other addresses."""
    lo = f"r.{side}_lo"
    parts = ", ".join(f"({lo} >> {shift}) & 255" for shift in (24, 16, 8, 0))
    return f"CASE WHEN r.{side}_hi = 0 AND {lo} >> 32 = 65535 THEN concat_ws('.', {parts}) END"


def _ipv6_names(
    events: Records | Mapping[str, npt.NDArray[Any]], side: str
) -> dict[str, npt.NDArray[Any]] | None:
    """Texts of the IPv6 addresses, which SQL cannot format, or None if there are none."""
    hi, lo = events[f"{side}_hi"], events[f"{side}_lo"]
    long = (hi != 0) | ((lo >> np.uint64(32) != 0xFFFF) & (lo != 0))
    if not long.any():
        return None
    hi, lo = hi[long], lo[long]
    by = np.lexsort((lo, hi))
    hi, lo = hi[by], lo[by]
    first = np.append(True, (hi[1:] != hi[:-1]) | (lo[1:] != lo[:-1]))
    hi, lo = hi[first], lo[first]
    names = [address(*pair) for pair in zip(hi.tolist(), lo.tolist(), strict=True)]
    # not as objects: for these, DuckDB imports pandas, which costs each SQL query's process 1.1 CPU seconds
    return {"hi": hi, "lo": lo, "name": np.array(names)}
