"""One query to a history, in the form that members exchange, and its answer by one of them."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal, Self, cast

from pydantic import BaseModel, Field, ValidationError

from ...base.errors import HopscopeError
from ...detect.distributions.quantiles import By, Distribution
from ...detect.flows.flow_id_hash import FlowIdHash
from ...detect.records import Kind, Metric
from ...history.errors import HistoryError
from ...history.history_like import HistoryLike
from ...history.reading.filters import Filters, Flow, to_ns
from ...history.reading.table import Table
from ...lake.cursor import ClusterCursor
from ...memory.private_file import hash_secret
from ...present.collector_state import CollectorState
from ...present.history import with_live
from ...present.select import EventFilter
from ...wire.address import number_of
from .parts import Answer
from .tables import Row, encode, table_of

Number = Annotated[int, Field(ge=0, lt=2**63)]
Words = Annotated[list[Annotated[str, Field(max_length=100)]], Field(max_length=1000)]
Numbers = Annotated[list[Number], Field(max_length=10_000)]
Method = Literal[
    "events", "flows", "paths", "summary", "hops", "peaks", "labels", "coverage", "distributions", "sql",
    "moment", "steps", "activity", "live_flows",
]  # fmt: skip
MAX_ROWS = 1_000_000
MAX_FLOWS = 10_000
THREADS = 2
"""How many queries run at a time; the others wait, and are dropped at their deadline."""
MEMORY_BYTES = 256 * 1024**2
TUPLE = ("src", "dst", "sport", "dport", "proto")
"""Columns of history that identify a flow in a cluster."""
LIVE = ("packets", "mean_latency", "highest_latency")
"""Columns to which live flows add."""


class _Model(BaseModel, strict=True):
    """Keys beyond those of this version are ignored."""


class FlowModel(_Model):
    """`filters.Flow`."""

    src: Annotated[str, Field(max_length=100)] | None = None
    dst: Annotated[str, Field(max_length=100)] | None = None
    sport: Number | None = None
    dport: Number | None = None
    proto: Number | None = None
    flow_id: Annotated[int, Field(ge=0, lt=2**64)] | None = None


class FiltersModel(_Model):
    """`filters.Filters`."""

    start: Number | None = None
    end: Number | None = None
    kinds: Words = []
    metrics: Words = []
    nodes: Numbers = []
    ports: Numbers = []
    flow: FlowModel | None = None
    flows: Annotated[list[FlowModel], Field(max_length=MAX_FLOWS)] = []
    prefix: Words = []

    @classmethod
    def of(cls, filters: Filters) -> Self:
        """The model of a call's filters."""
        flow = filters.get("flow")
        return cls(
            **plain_filters(filters),
            flow=None if flow is None else FlowModel(**asdict(flow)),
            flows=[FlowModel(**asdict(each)) for each in filters.get("flows") or ()],
        )

    def filters(self) -> Filters:
        """The filters for a call."""
        found = self.model_dump(exclude={"flow", "flows"})
        flow = None if self.flow is None else Flow(**self.flow.model_dump())
        return cast(
            Filters, {**found, "flow": flow, "flows": [Flow(**each.model_dump()) for each in self.flows]}
        )


def plain_filters(filters: Filters) -> dict[str, Any]:
    """A call's filters as JSON has them, without `flow` and `flows`."""
    start, end, prefix = filters.get("start"), filters.get("end"), filters.get("prefix") or ()
    return {
        "start": None if start is None else to_ns(start),
        "end": None if end is None else to_ns(end),
        "kinds": list(filters.get("kinds") or ()),
        "metrics": list(filters.get("metrics") or ()),
        "nodes": [int(node) for node in filters.get("nodes") or ()],
        "ports": [int(port) for port in filters.get("ports") or ()],
        "prefix": [prefix] if isinstance(prefix, str) else list(prefix),
    }


class HistoryQuery(_Model):
    """A method of a history and its arguments; `live_flows`: values of live flows in `filters.flows`."""

    method: Method
    filters: FiltersModel = FiltersModel()
    limit: Annotated[int, Field(ge=1, le=MAX_ROWS)] | None = None
    order: Literal["newest", "oldest"] = "newest"
    after: Annotated[str, Field(max_length=200)] | None = None
    """A cursor of the cluster."""
    bucket_seconds: Annotated[float, Field(gt=0, lt=1e9)] | None = None
    bucket_ns: Annotated[int, Field(gt=0, lt=2**63)] | None = None
    metric: Annotated[str, Field(max_length=100)] = ""
    highest_from: Number = 0
    queues: Numbers = []
    measures: Words = []
    by: By = "queue"
    text: Annotated[str, Field(max_length=20_000)] = ""
    seconds: Annotated[float, Field(gt=0, le=60)] = 2.0
    memory_bytes: Annotated[int, Field(ge=2**20, le=2**34)] = 512 * 1024**2

    def ask(
        self, history: HistoryLike, member: str, stop: threading.Event | None = None
    ) -> Table | list[Distribution]:
        """The answer of the history of a member. Raises HistoryError."""
        filters = self.filters.filters()
        match self.method:
            case "events":
                after = self.after and ClusterCursor.parse(self.after).of(member, self.order)
                return history.events(limit=self.limit, order=self.order, after=after, **filters)
            case "flows":
                return _with_live(history, history.flows(limit=self.limit, **filters), self.filters.end)
            case "live_flows":
                return _live(history.folder, self.filters.flows)
            case "paths":
                return history.paths(limit=self.limit, **filters)
            case "summary":
                return history.summary(bucket_seconds=self.bucket_seconds, **filters)
            case "hops":
                return history.hops(limit=self.limit, **filters)
            case "peaks":
                if self.metric != Kind.DROP.label and self.metric.upper() not in Metric.__members__:
                    raise HistoryError(f"unknown metric {self.metric!r}")
                return history.peaks(self.metric, bucket_ns=self.bucket_ns, limit=self.limit, **filters)
            case "labels":
                return history.labels(limit=self.limit, **filters)
            case "coverage":
                return history.coverage(limit=self.limit, **filters)
            case "moment":
                return history.moment(highest_from=self.highest_from, **filters)
            case "steps":
                return history.steps(**filters)
            case "activity":
                return history.activity(self.metric, bucket_seconds=self.bucket_seconds or 1.0, **filters)
            case "distributions":
                return history.distributions(
                    start=self.filters.start,
                    end=self.filters.end,
                    nodes=self.filters.nodes,
                    ports=self.filters.ports,
                    queues=self.queues,
                    measures=self.measures,
                    by=self.by,
                    bucket_ns=self.bucket_ns,
                )
            case "sql":
                return history.sql(
                    self.text,
                    limit=self.limit or 10_000,
                    seconds=self.seconds,
                    memory_bytes=self.memory_bytes,
                    stop=stop,
                )


def _with_live(history: HistoryLike, table: Table, end_ns: int | None) -> Table:
    """Add packets and means of live flows, which only their own member knows."""
    state = CollectorState(history.folder)
    rows = list(with_live(table.rows(), state, EventFilter(end_ns=end_ns)))
    return table_of(rows, tuple(table.columns), truncated=table.truncated)


def _live(folder: Path, wanted: Sequence[FlowModel]) -> Table:
    """Packets and latencies of those flows that are live, by their whole 5-tuples."""
    ids, rows = FlowIdHash(hash_secret(folder)), list[Row]()
    for each in wanted:
        flow = each.model_dump(include={*TUPLE})
        try:
            src, dst = (divmod(number_of(flow[end]), 1 << 64) for end in ("src", "dst"))
            version = 4 if "." in flow["src"] else 6
            flow_id = ids.of(src, dst, flow["sport"], flow["dport"], flow["proto"], version)
        except (ValueError, TypeError):
            raise HistoryError("expected whole 5-tuples") from None
        rows.append({**flow, "flow_id": flow_id, **dict.fromkeys(LIVE)})
    found = with_live(rows, CollectorState(folder), EventFilter())
    live = [row for row in found if row["packets"] is not None]
    return table_of(live, (*TUPLE, *LIVE), truncated=False)


class HistoryHandler:
    """Answers from the data folder of the member `name`, which is opened for the first query."""

    def __init__(self, folder: Path, name: str, sql_memory_bytes: int) -> None:
        """`sql_memory_bytes`: maximum memory of a SELECT, whatever the query asks for."""
        from ...history.query import History  # DuckDB is not needed before

        self._name, self._sql_memory_bytes = name, sql_memory_bytes
        self._history = History(folder, memory_bytes=MEMORY_BYTES, threads=1, member=name)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="history")

    def close(self) -> None:
        """Close the folder; pending queries fail."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._history.close()

    async def __call__(self, query: Mapping[str, Any]) -> Answer:
        """The table or the distributions. HopscopeError: malformed, or from a newer version."""
        try:
            asked = HistoryQuery.model_validate_json(json.dumps(query.get("ask")))
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            place = ".".join(map(str, first["loc"]))
            raise HopscopeError(f"found no query of this version: {place}: {first['msg']}") from None
        allowed = min(asked.memory_bytes, self._sql_memory_bytes)
        asked = asked.model_copy(update={"memory_bytes": allowed})
        stop = threading.Event()

        def work() -> Answer:
            from ...history.sandbox.query import SqlError

            if stop.is_set():
                return Answer(503, b"its deadline has passed")
            try:
                found = asked.ask(self._history, self._name, stop)
            except SqlError as error:
                return Answer(400, str(error).encode())
            return Answer(200, encode(found, self._history.problems))

        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            stop.set()
