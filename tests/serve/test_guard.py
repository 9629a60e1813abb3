"""Who may ask: tokens, Host and Origin headers, sizes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from hopscope.serve.guard import session_of
from hopscope.serve.server import ServeError, bind, url_of
from hopscope.settings.collector import ServeSettings

TOKEN = "correct horse battery"


def ask(
    api: Any, folder: Path, method: str, url: str, token: str | None = None, **more: Any
) -> httpx.Response:
    """One request to an API with or without a token."""

    async def talk() -> httpx.Response:
        async with api(folder, ServeSettings(token=token)) as client:
            answer: httpx.Response = await client.request(method, url, **more)
            return answer

    return asyncio.run(talk())


@pytest.mark.parametrize("path", ["/", "/api/v0/flows", "/metrics", "/readyz", "/api/v0/openapi.json"])
def test_a_token_guards_everything_but_healthz(api: Any, tmp_path: Path, path: str) -> None:
    """Without or with a wrong token 401 in JSON; with it, anything else; /healthz is open."""
    assert ask(api, tmp_path, "GET", path, TOKEN).status_code == 401
    wrong = ask(api, tmp_path, "GET", path, TOKEN, headers={"authorization": "Bearer correct horse batterz"})
    assert wrong.status_code == 401
    assert wrong.json()["error"]
    assert wrong.headers["www-authenticate"] == "Bearer"
    right = ask(api, tmp_path, "GET", path, TOKEN, headers={"authorization": f"Bearer {TOKEN}"})
    assert right.status_code != 401
    assert ask(api, tmp_path, "GET", "/healthz", TOKEN).status_code == 200


def test_the_page_asks_for_the_token_and_gives_a_cookie(api: Any, tmp_path: Path) -> None:
    """A browser gets a form; the right token gives a cookie that proves it, a wrong one does not."""
    form = ask(api, tmp_path, "GET", "/", TOKEN, headers={"accept": "text/html"})
    assert form.status_code == 401
    assert "<form" in form.text
    assert ask(api, tmp_path, "POST", "/login", TOKEN, data={"token": "no"}).status_code == 401
    given = ask(api, tmp_path, "POST", "/login", TOKEN, data={"token": TOKEN})
    assert given.status_code == 303
    cookie = given.headers["set-cookie"]
    assert TOKEN not in cookie
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    headers = {"cookie": f"hopscope_session={session_of(TOKEN)}"}
    assert ask(api, tmp_path, "GET", "/api/v0/flows", TOKEN, headers=headers).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "[::2]", "10.0.0.1:8080"])
def test_a_foreign_host_header_is_refused(api: Any, tmp_path: Path, host: str) -> None:
    """DNS rebinding: a page of another name that resolves to loopback cannot read the API."""
    assert ask(api, tmp_path, "GET", "/healthz", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost", "localhost:8080", "127.0.0.1:9", "[::1]:8080", "127.8.8.8"])
def test_a_host_header_of_this_machine_is_taken(api: Any, tmp_path: Path, host: str) -> None:
    """Every name of loopback works."""
    assert ask(api, tmp_path, "GET", "/healthz", headers={"host": host}).status_code == 200


def test_another_site_changes_nothing(api: Any, tmp_path: Path) -> None:
    """A write with another site's Origin is refused before it is read; no CORS header is ever sent."""
    url, headers = "/api/v0/thresholds/hop_latency", {"origin": "http://evil.example"}
    assert ask(api, tmp_path, "PATCH", url, headers=headers, json={}).status_code == 403
    assert (
        ask(api, tmp_path, "POST", "/api/v0/sql", headers={"origin": "http://["}, json={}).status_code == 403
    )
    answer = ask(api, tmp_path, "GET", "/api/v0/flows", headers=headers)
    assert not any(name.startswith("access-control") for name in answer.headers)
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")


def test_a_websocket_of_another_site_is_closed(tmp_path: Path) -> None:
    """Browsers let any page open a WebSocket: its Origin decides."""
    from hopscope.serve.guard import Guard

    reached = []

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        reached.append(scope["path"])

    async def knock(origin: bytes) -> list[Any]:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [(b"host", b"localhost:8080"), (b"origin", origin)]
        scope = {"type": "websocket", "path": "/_nicegui_ws/", "headers": headers}
        await Guard(inner, "127.0.0.1", None)(scope, None, send)  # type: ignore[arg-type]
        return sent

    assert asyncio.run(knock(b"http://evil.example"))[0]["type"] == "websocket.close"
    assert not reached
    assert not asyncio.run(knock(b"http://localhost:8080"))
    assert reached == ["/_nicegui_ws/"]


def test_a_large_body_is_refused(api: Any, tmp_path: Path) -> None:
    """A body over the limit is 413 by its length, and cut off without one."""
    assert ask(api, tmp_path, "POST", "/api/v0/sql", content=b"x" * 300_000).status_code == 413

    async def endless() -> Any:
        for _ in range(10):
            yield b"y" * 65_536

    assert ask(api, tmp_path, "POST", "/api/v0/sql", content=endless()).status_code in (400, 413, 500)


def test_the_network_needs_a_token() -> None:
    """Beyond loopback without a token there is one line at the start, and for a port that is taken too."""
    with pytest.raises(ServeError, match="needs a token") as refused:
        bind(ServeSettings.model_construct(host="0.0.0.0", port=0, token=None))
    assert "\n" not in str(refused.value)
    with bind(ServeSettings(port=0)) as listener:
        port = listener.getsockname()[1]
        assert url_of(listener) == f"http://127.0.0.1:{port}/"
        with pytest.raises(ServeError, match=f"127.0.0.1:{port}"):
            bind(ServeSettings(port=port))
