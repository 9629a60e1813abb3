"""The whole API by its own description: what it allows, and what it does not, is answered as described."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from hopscope.serve.api import create_app
from hopscope.settings.serve import ServeSettings

from .conftest import NAMES, Collector

EXAMPLES = 2
"""Requests of each operation and kind: the same in every run."""
CHECKS = [
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
]
TRACEBACK = " ".join(["Traceback", "(most recent call last)"])
"""Hypothesis sends texts that stand in sources, and answers quote what is wrong: this one stands in none."""
_FEW = settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("mode", ["POSITIVE", "NEGATIVE"])
def test_every_operation_answers_as_it_is_described(collector: Collector, mode: str) -> None:
    """Every operation of OpenAPI, asked by an operator, of a collector with data: status, headers and body
    are those of its description; no error is one of the server (503 says what is absent), and none has a
    traceback. Live feeds, which do not end, are left out.
    """
    app = create_app(ServeSettings(sql_seconds=1), collector.folder, NAMES)
    token = (collector.folder / "token").read_text().strip()
    own = {b"host": b"127.0.0.1:8080", b"authorization": f"Bearer {token}".encode()}

    async def asked(scope: Any, receive: Any, send: Any) -> None:
        others = [each for each in scope.get("headers", ()) if each[0].lower() not in own]
        try:
            await app.state.guarded({**scope, "headers": [*others, *own.items()]}, receive, send)
        except Exception:  # the answer has been sent: it is 500
            assert scope["type"] == "http"

    schema = schemathesis.openapi.from_dict(app.openapi())
    schema.app = asked
    wrong: dict[str, None] = {}
    answered = set[str]()

    def check(case: Any) -> None:
        answer = case.call()
        what = (
            f"{case.method} {case.formatted_path} {case.query} {str(case.body)[:200]}: {answer.status_code}"
        )
        answered.add(f"{case.method} {case.path}")
        if (answer.status_code >= 500 and answer.status_code != 503) or TRACEBACK in answer.text:
            wrong[what] = None
        try:
            case.validate_response(answer, checks=CHECKS)
        except BaseExceptionGroup as group:
            wrong.update(dict.fromkeys(f"{what}: {str(each)[:400]}" for each in group.exceptions))

    for result in schema.get_all_operations():
        operation = result.ok()  # type: ignore[union-attr]
        if operation.path.endswith("/live"):
            continue
        cases = operation.as_strategy(generation_mode=schemathesis.GenerationMode[mode])
        try:
            _FEW(given(case=cases)(check))()
        except (Unsatisfiable, pytest.skip.Exception):
            assert mode == "NEGATIVE", "nothing can be asked"  # an operation without a parameter
    app.state.context.close()
    assert not wrong, "\n".join(wrong)
    assert len(answered) > (60 if mode == "POSITIVE" else 30)


def test_a_collector_that_has_received_nothing_answers(idle: Collector) -> None:
    """Every query, with each value of its parameters that have few: no page of the console is an error
    before the first report.
    """
    app = create_app(ServeSettings(), idle.folder, NAMES)
    wrong: dict[str, str] = {}

    async def ask() -> None:
        transport = httpx.ASGITransport(app.state.guarded, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
            for path, operations in app.openapi()["paths"].items():
                if "get" not in operations or "{" in path or path.endswith("/live"):
                    continue
                parameters = operations["get"].get("parameters", ())
                choices = {each["name"]: values_of(each["schema"]) for each in parameters}
                needed = {
                    each["name"]: (choices[each["name"]] or ["hop_latency"])[0]
                    for each in parameters
                    if each.get("required")
                }
                queries: list[dict[str, str]] = [{}]
                queries += ({name: value} for name, values in choices.items() for value in values)
                for query in queries:
                    answer = await client.get(path, params=needed | query)
                    if answer.status_code >= 500 and query != {"scope": "cluster"}:
                        wrong[f"{path} {query}"] = answer.text

    asyncio.run(ask())
    app.state.context.close()
    assert not wrong


def values_of(schema: dict[str, Any]) -> list[str]:
    """The values that a parameter may have, if they are listed."""
    found = list(schema.get("enum", ()))
    for each in schema.get("anyOf", ()):
        found += values_of(each)
    return found


def test_every_status_that_is_sent_is_described(collector: Collector) -> None:
    """What all operations answer before their route is asked, and what FastAPI would describe but is never
    sent: no 422, for which 400 is sent; another host, an overlong body, nobody without a login.
    """
    secret = "a token of some length"
    app = create_app(ServeSettings(token=secret), collector.folder, NAMES)
    paths = app.openapi()["paths"]
    operations = [(path, method, each) for path in paths for method, each in paths[path].items()]
    assert "ValidationError" not in str(app.openapi())
    sent: dict[int, dict[str, str]] = {
        401: {},
        413: {"authorization": f"Bearer {secret}", "content-length": "999999"},
        421: {"host": "evil.example"},
    }

    async def ask() -> None:
        transport = httpx.ASGITransport(app.state.guarded)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
            for path, method, each in operations:
                described = set(each["responses"])
                assert "422" not in described, path
                assert "500" in described, path
                if each.get("parameters") or each.get("requestBody"):
                    assert {"400", "default"} & described, path
                address = re.sub(r"{\w+}", "1", path)
                for status, headers in sent.items():
                    if status == 413 and method == "get":
                        continue
                    answer = await client.request(method, address, headers=headers)
                    assert str(answer.status_code) in described, (path, method, answer.status_code)
                    if status != 401:  # some need no login
                        assert answer.status_code == status, (path, method)

    asyncio.run(ask())
    app.state.context.close()
