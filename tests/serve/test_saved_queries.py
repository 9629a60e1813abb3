"""Saved queries over HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from hopscope.operators import queries

pytestmark = pytest.mark.e2e


def test_a_query_is_saved_shown_replaced_and_deleted(api: Any, collector: Any) -> None:
    """Each step is seen by the next; all changes are in the audit with the text before and after."""

    async def use() -> None:
        async with api(collector.folder) as client:
            assert (await client.get("/api/v0/queries")).json() == {"items": []}
            path = "/api/v0/queries/drops by port"
            saved = (await client.put(path, json={"sql": "SELECT 1"})).json()
            assert saved["sql"] == "SELECT 1"
            assert saved["who"]
            assert (await client.put(path, json={"sql": "SELECT 2"})).status_code == 200
            assert (await client.get(path)).json()["sql"] == "SELECT 2"
            listed = (await client.get("/api/v0/queries")).json()["items"]
            assert [each["name"] for each in listed] == ["drops by port"]
            assert (await client.delete(path)).json() == {"items": []}
            missing: list[httpx.Response] = [await client.get(path), await client.delete(path)]
            assert [answer.status_code for answer in missing] == [404, 404]

    asyncio.run(use())
    from hopscope.operators.audit import Audit
    from hopscope.operators.database import Database

    entries = Audit(Database(collector.folder)).page()
    assert [(each.kind, each.before, each.after) for each in reversed(entries)] == [
        ("queries.save", None, "SELECT 1"),
        ("queries.save", "SELECT 1", "SELECT 2"),
        ("queries.delete", "SELECT 2", None),
    ]


def test_bad_names_and_too_many_are_refused(
    api: Any, collector: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name without control characters and slashes, a text that is not empty, and no more than the most."""
    monkeypatch.setattr(queries, "MAX_QUERIES", 1)

    async def use() -> list[int]:
        async with api(collector.folder) as client:
            found = []
            for name, sql in (("a%0Ab", "SELECT 1"), ("a", ""), ("a" * 81, "SELECT 1"), ("a", "SELECT 1")):
                found.append((await client.put(f"/api/v0/queries/{name}", json={"sql": sql})).status_code)
            more = await client.put("/api/v0/queries/b", json={"sql": "SELECT 1"})
            again = await client.put("/api/v0/queries/a", json={"sql": "SELECT 2"})
            return [*found, more.status_code, again.status_code]

    assert asyncio.run(use()) == [400, 400, 400, 200, 409, 200]
