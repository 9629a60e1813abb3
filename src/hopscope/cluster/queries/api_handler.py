"""Queries to the API: a member answers with its own application's answers to GETs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from ...base.errors import HopscopeError
from ..merge.rules import MAX_ROWS, rule_of
from .parts import ANSWER_BYTES, Answer, too_large

if TYPE_CHECKING:
    import httpx

PAGE_ROWS = 1000
"""Maximum number of rows in one answer of the API."""


class Get(BaseModel, strict=True):
    """One GET."""

    path: Annotated[str, Field(max_length=4096)]
    query: Annotated[list[tuple[str, str]], Field(max_length=1000)] = []
    rows: Annotated[int, Field(ge=0, le=MAX_ROWS)] | None = None
    """How many `items` to collect, with as many requests as needed; None: one request, unchanged."""


class Gets(BaseModel, strict=True):
    """A query; its answer is a list with the answer to each GET. Unknown keys are ignored."""

    gets: Annotated[list[Get], Field(min_length=1, max_length=8)]


class ApiHandler:
    """Calls an ASGI application. It must not be in a cluster, or a query would ask all members again."""

    def __init__(
        self, application: Any, close: Callable[[], None], prepare: Callable[[], None] = lambda: None
    ) -> None:
        """`close` ends the application; `prepare` is called before each query."""
        import httpx

        self.close, self._prepare = close, prepare

        transport = httpx.ASGITransport(application, raise_app_exceptions=False)
        self._client = httpx.AsyncClient(transport=transport, base_url="http://cluster")

    async def __call__(self, query: Mapping[str, Any]) -> Answer:
        """The answers to the GETs, or the first one that failed. HopscopeError: the query is malformed, or
        the table of rules does not have a path.
        """
        try:
            gets = Gets.model_validate_json(json.dumps({"gets": query.get("gets")})).gets
        except ValidationError as error:
            raise HopscopeError(f"found no GETs: {error.errors()[0]['msg']}") from None
        self._prepare()
        found = []
        for get in gets:
            if rule_of(get.path) is None:
                raise HopscopeError(f"this version does not answer {get.path[:100]} to a cluster")
            answer = await (
                self._once(get.path, get.query) if get.rows is None else self._rows(get, get.rows)
            )
            if answer.status != 200:
                return answer
            found.append(answer.body)
        return Answer(200, b"[%b]" % b",".join(found))

    async def _once(self, path: str, query: Sequence[tuple[str, str]]) -> Answer:
        found = await self._client.get(path, params=list[tuple[str, Any]](query))
        if found.status_code == 200:
            return Answer(200, found.content)
        return Answer(found.status_code, _line(found))

    async def _rows(self, get: Get, rows: int) -> Answer:
        """The first `rows` rows as one page."""
        fixed = [(name, value) for name, value in get.query if name not in ("offset", "limit")]
        whole: dict[str, Any] = {}
        size = 0
        while not whole or len(whole["items"]) < rows:
            at = len(whole["items"]) if whole else 0
            limit = min(PAGE_ROWS, max(1, rows - at))
            answer = await self._once(get.path, [*fixed, ("offset", str(at)), ("limit", str(limit))])
            size += len(answer.body)
            if answer.status != 200:
                return answer
            if size > ANSWER_BYTES:
                return too_large(size)
            page = json.loads(answer.body)
            items = page["items"]
            whole = {**page, "items": [*whole["items"], *items] if whole else items}
            if len(items) < limit:
                break
        return Answer(200, json.dumps(whole, separators=(",", ":")).encode())


def _line(found: httpx.Response) -> bytes:
    """The reason of a failure."""
    try:
        return str(found.json()["error"]).encode()
    except (ValueError, KeyError, TypeError):
        return found.content[:300]
