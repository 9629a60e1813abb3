"""Asks all members of a cluster (`?scope=cluster`), validates their answers, and merges them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args
from urllib.parse import urlencode

from fastapi import HTTPException, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, TypeAdapter

from ..base.names import Names
from ..cluster.merge.rules import MAX_ROWS, Rule
from ..cluster.queries.cluster_answer import ClusterAnswer, ClusterHistory
from ..present.history import SharedHistory
from ..present.text import EARLIEST_NS, UnreadableError, parse_when
from ..settings.collector import Settings

if TYPE_CHECKING:
    from ..cluster.queries.client import Gathered, QueryClient
    from ..cluster.queries.history import SharedLake
    from ..cluster.queries.parts import Answer

Handler = Callable[[Request], Coroutine[Any, Any, Response]]
Scope = Literal["member", "cluster"]
OF_HISTORY = frozenset(
    f"/api/v0/{path}"
    for path in (
        *("events", "events/histogram", "history/flows", "distributions", "sql", "bottleneck"),
        *("labels/history", "labels/coverage/history"),
        *("series", "heatmap", "bursts", "distributions/history", "limits/preview"),
        *("fabric", "fabric/ports", "fabric/timeline"),
    )
)
"""Routes that themselves read the history of a cluster, through `Context.query`."""
_TIMES = ("since", "until", "at")
_STEP_NS = 5 * 10**9
"""Relative times are rounded down to this, so that members can keep their answers to a client that polls."""
_BAD = (KeyError, TypeError, ValueError, AttributeError, OverflowError, IndexError)
"""Errors that the merging rules raise for a malformed answer."""


def asks_cluster(request: Request) -> bool:
    """Whether a request is addressed to all members."""
    return request.query_params.get("scope") == "cluster"


def of_member(request: Request) -> Request:
    """The same request, addressed to this member only."""
    query = [(name, value) for name, value in request.query_params.multi_items() if name != "scope"]
    return Request({**request.scope, "query_string": urlencode(query).encode()}, request.receive)


class ClusterScope:
    """Asks the cluster of a member. The connection is made for the first query, and kept."""

    def __init__(self, settings: Settings, folder: Path, names: Names) -> None:
        self._settings, self._folder, self._names = settings, folder, names
        self._client: QueryClient | None = None
        self._lake: SharedLake | None = None
        self._lock = threading.Lock()

    @property
    def member(self) -> str:
        """Name of this member."""
        return self._settings.member_name

    @property
    def client(self) -> QueryClient:
        """Asks members over NATS; made once."""
        with self._lock:
            if self._client is None:
                from ..cluster.connection import Connection
                from ..cluster.queries.client import QueryClient

                who = f"{self._settings.member_name} serve"
                self._client = QueryClient(Connection(self._settings.cluster, who, keep=True))
            return self._client

    def history(self) -> ClusterHistory:
        """The history of all members, for one request."""
        from ..cluster.queries.history import SharedLake, open_history

        client = self.client
        with self._lock:
            if self._lake is None and self._settings.lake.enabled:
                self._lake = SharedLake(self._settings)
        return open_history(self._settings, self._folder, client, self._lake)

    def past(self) -> SharedHistory:
        """The same, as the routes read it."""
        return SharedHistory(self._folder, self._names, self.history)

    def close(self) -> None:
        """Close the connections."""
        for each in (self._client, self._lake):
            if each is not None:
                each.close()

    def ask(self, query: ClusterQuery) -> Response | ClusterAnswer:
        """The merged answers. If NATS is unreachable, only a note that this member alone answers."""
        from ..cluster.connection import ClusterError

        try:
            found = self.client.ask(
                "api", {"gets": query.gets}, query.read, accepted=(200, 400, 404), only=query.only
            )
            return query.answered(found.of_cluster(self._settings.member_name))
        except ClusterError as error:
            alone = ClusterAnswer((self._settings.member_name,), {}, str(error))
            if query.only and not set(query.only) & set(alone.answered):
                return _error(503, f"{query.only[0]} cannot be asked: {error}", alone)
            return alone


class ClusterQuery:
    """One request as a query to all members. ValueError: its offset or limit is not a number."""

    def __init__(self, request: Request, rule: Rule, models: Sequence[Any]) -> None:
        """`models`: the models of answers to its path and to `rule.also`."""
        now_ns = time.time_ns() // _STEP_NS * _STEP_NS
        given = [
            (name, _absolute(value, now_ns) if name in _TIMES else value)
            for name, value in request.query_params.multi_items()
            if name != "scope"
        ]
        self._rule, self._query = rule, dict(given)  # the last of several counts, as for FastAPI
        self._models = models
        self.only = (self._query["member"],) if rule.named and self._query.get("member") else None
        """The members to ask; None: all."""
        rows = None
        if rule.paged:
            rows = int(self._query.get("offset", 0)) + int(self._query.get("limit", 100))
            if rows > MAX_ROWS:
                raise HTTPException(400, f"offset: expected at most {MAX_ROWS:,} rows up to the page's end")
            rows = MAX_ROWS if rule.every else rows
        self.gets: list[dict[str, Any]] = [
            {"path": request.url.path, "query": given, "rows": rows},
            *({"path": path, "query": [], "rows": MAX_ROWS} for path in rule.also),
        ]

    def read(self, answer: Answer) -> Answer | list[Any]:
        """Bodies of a valid answer; a refusal is returned unchanged. ValueError: the answer is malformed."""
        if answer.status != 200:
            return answer
        try:
            bodies = json.loads(answer.body)
        except (ValueError, RecursionError):
            raise ValueError("its answer is damaged: it is not JSON") from None
        if not isinstance(bodies, list) or len(bodies) != len(self._models):
            raise ValueError("its answer is damaged: it has a wrong number of bodies")
        try:
            for kind, body in zip(self._models, bodies, strict=True):
                _adapter(kind).validate_python(body, strict=True)
            for body in bodies[0 if self._rule.every else 1 :]:
                if body["total"] > len(body["items"]) == MAX_ROWS:
                    raise ValueError(f"it has more than {MAX_ROWS:,} rows")
            self._rule.merge({"": bodies}, self._query)
        except _BAD as error:
            text = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ValueError(f"its answer is damaged: {text}") from None
        return bodies

    def answered(self, gathered: Gathered[Answer | list[Any]]) -> Response:
        """The answer to the request."""
        bodies: dict[str, list[Any]] = {}
        refused: dict[str, str] = {}
        nothing = "none of the members has it"
        for member, found in gathered.found.items():
            if isinstance(found, list):
                bodies[member] = found
                continue
            text = found.body.decode("utf-8", "replace")
            if found.status == 404 and self._rule.absent:
                bodies[member], nothing = [None], text
            else:
                refused[member] = f"error {found.status}: {text}"
        merged = self._rule.merge(bodies, self._query) if bodies else None
        past = self._rule.past(self._query, merged)
        missing = (gathered.of_history if past else gathered.answer).missing
        answer = ClusterAnswer(tuple(sorted(bodies)), {**missing, **refused})
        if not bodies and refused:  # a parameter is wrong, as all members say
            return _error(400, next(iter(refused.values())).partition(": ")[2], answer)
        if not bodies and self.only and not answer.missing:
            return _error(404, f"the cluster has no member {self.only[0][:60]!r}", answer)
        if not bodies:
            lacking = "; ".join(f"{name}: {reason}" for name, reason in answer.missing.items())
            return _error(503, f"no member of the cluster answered{lacking and f' ({lacking})'}", answer)
        if merged is None:
            return _error(404, nothing, answer)
        return JSONResponse({**merged, "cluster": answer.as_json()})


def with_cluster(response: Response, answer: ClusterAnswer, model: type[BaseModel]) -> Response:
    """An answer of this member alone, marked as such. Its rows name their member, as in an answer from all
    members.
    """
    body: dict[str, Any] = json.loads(bytes(response.body))
    (member,) = answer.answered
    _state_member(body, model, member)
    return JSONResponse({**body, "cluster": answer.as_json()}, response.status_code)


def _state_member(row: dict[str, Any], model: type[BaseModel], member: str) -> None:
    """Add `member` or `members`, whichever the model has, to a row and the rows in it."""
    whose = {"member": member, "members": [member]}
    row |= {name: whose[name] for name in whose.keys() & model.model_fields.keys()}
    for name, field in model.model_fields.items():
        for kind in (field.annotation, *get_args(field.annotation)):
            if isinstance(kind, type) and issubclass(kind, BaseModel) and row.get(name):
                for each in row[name] if isinstance(row[name], list) else (row[name],):
                    _state_member(each, kind, member)


def _absolute(text: str, now_ns: int) -> str:
    """A time as ns since the epoch, the same for all members, whatever their clocks, and large enough that
    they take it for ns; unchanged if it cannot be read, which the members report.
    """
    try:
        found = parse_when(text, now_ns)
        return str(found and max(EARLIEST_NS, found))
    except UnreadableError:
        return text


def _error(status: int, text: str, answer: ClusterAnswer) -> Response:
    return JSONResponse({"error": " ".join(text.split()), "cluster": answer.as_json()}, status)


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    make: Callable[[Any], TypeAdapter[Any]] = TypeAdapter
    return make(kind)
