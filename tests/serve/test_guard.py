"""Who may ask: tokens, Host and Origin headers, sizes."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from hopscope.operators.audit import Author
from hopscope.operators.database import Database
from hopscope.operators.users import Users
from hopscope.serve.server import ServeError, bind, url_of
from hopscope.settings.serve import ServeSettings

TOKEN = "correct horse battery"


def ask(
    api: Any, folder: Path, method: str, url: str, token: str | None = None, **more: Any
) -> httpx.Response:
    """One request to an API with or without a token."""

    async def talk() -> httpx.Response:
        async with api(folder, ServeSettings(token=token)) as client:
            return await client.request(method, url, **more)

    return asyncio.run(talk())


@pytest.mark.parametrize("path", ["/", "/api/v0/flows", "/metrics", "/api/v0/openapi.json"])
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


def test_a_probe_without_a_token_sees_whether_it_is_ready_and_no_more(api: Any, tmp_path: Path) -> None:
    """Components, with their names and reasons, need the token; the status is the same."""
    known = ask(api, tmp_path, "GET", "/readyz", TOKEN, headers={"authorization": f"Bearer {TOKEN}"})
    assert known.json()["components"]
    for headers in ({}, {"authorization": "Bearer of a stranger"}, {"accept": "text/html"}):
        answer = ask(api, tmp_path, "GET", "/readyz", TOKEN, headers=headers)
        assert (answer.status_code, answer.json()) == (known.status_code, {"ready": False})
    head = ask(api, tmp_path, "HEAD", "/readyz", TOKEN)
    assert (head.status_code, head.content) == (known.status_code, b"")
    assert ask(api, tmp_path, "POST", "/readyz", TOKEN).status_code == 401


def test_a_token_may_be_in_a_file(api: Any, tmp_path: Path) -> None:
    """Its first line counts, and not the name of the file."""
    place = f"file:{tmp_path / 'page.token'}"
    (tmp_path / "page.token").write_text(f"{TOKEN}\n")
    for given, status in ((TOKEN, 200), (place, 401)):
        headers = {"authorization": f"Bearer {given}"}
        assert ask(api, tmp_path, "GET", "/api/v0/openapi.json", place, headers=headers).status_code == status


def test_a_browser_is_led_to_the_login_page(api: Any, tmp_path: Path) -> None:
    """It keeps the address that was asked for; programs get JSON; the page and its styles need no login."""
    html = {"accept": "text/html"}
    led = ask(api, tmp_path, "GET", "/flows?q=10.0.0.1&x=%26", TOKEN, headers=html)
    assert led.status_code == 303
    assert led.headers["location"] == "/login?next=%2Fflows%3Fq%3D10.0.0.1%26x%3D%2526"
    assert ask(api, tmp_path, "GET", "/api/v0/flows", TOKEN, headers=html).status_code == 401
    page = ask(api, tmp_path, "GET", led.headers["location"], TOKEN)
    assert page.status_code == 200
    assert '<form class="form" method="post" action="/login">' in page.text
    assert 'name="next" value="/flows?q=10.0.0.1&amp;x=%26"' in page.text
    styles = re.findall(r'href="(/console/[^"]+\.css)"', page.text)
    assert len(styles) > 2
    for style in styles:
        assert ask(api, tmp_path, "GET", style, TOKEN).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "", "[::2]", "10.0.0.1:8080", "[::1].evil", "evil@127.0.0.1"],
)
def test_a_foreign_host_header_is_refused(api: Any, tmp_path: Path, host: str) -> None:
    """DNS rebinding: a page of another name that resolves to loopback cannot read the API."""
    assert ask(api, tmp_path, "GET", "/healthz", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost", "localhost:8080", "127.0.0.1:9", "[::1]:8080", "127.8.8.8"])
def test_a_host_header_of_this_machine_is_taken(api: Any, tmp_path: Path, host: str) -> None:
    """Every name of loopback works."""
    assert ask(api, tmp_path, "GET", "/healthz", headers={"host": host}).status_code == 200


def test_another_site_changes_nothing(api: Any, tmp_path: Path) -> None:
    """A write with another site's Origin is refused before it is read; no CORS header is ever sent."""
    url, headers = "/api/v0/limits/hop_latency", {"origin": "http://evil.example"}
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
    from hopscope.serve.access.access import Access
    from hopscope.serve.access.guard import Guard

    access = Access(ServeSettings(), tmp_path, Database(tmp_path))
    reached: list[str] = []

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        reached.append(scope["path"])

    async def knock(origin: bytes) -> list[Any]:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [(b"host", b"localhost:8080"), (b"origin", origin)]
        scope = {"type": "websocket", "path": "/api/v0/live", "headers": headers}
        await Guard(inner, access)(scope, None, send)  # type: ignore[arg-type]
        return sent

    for foreign in (b"http://evil.example", b"null", b"http://localhost:8081", b"", b"http://["):
        assert asyncio.run(knock(foreign))[0]["type"] == "websocket.close", foreign
    assert not reached
    assert not asyncio.run(knock(b"http://localhost:8080"))
    assert reached == ["/api/v0/live"]
    access.close()


def test_a_body_with_two_lengths_is_refused(api: Any, tmp_path: Path) -> None:
    """A proxy in front may have taken the other one: the connection ends, and with it a smuggled request."""
    two = {"content-length": "2", "transfer-encoding": "chunked"}
    answer = ask(api, tmp_path, "POST", "/login", headers=two, content=b"ab")
    assert (answer.status_code, answer.headers["connection"]) == (400, "close")


def test_a_large_body_is_refused(api: Any, tmp_path: Path) -> None:
    """A body over the limit is 413, by its length, and without one as soon as it is too long."""
    known = ask(api, tmp_path, "POST", "/api/v0/sql", content=b"x" * 300_000)
    assert (known.status_code, known.json()) == (
        413, {"error": "the request's body is longer than 262,144 bytes"},
    )  # fmt: skip
    sent = 0

    async def endless() -> Any:
        nonlocal sent
        for _ in range(10):
            sent += 1
            yield b"y" * 65_536

    unknown = ask(api, tmp_path, "POST", "/api/v0/sql", content=endless())
    assert (unknown.status_code, unknown.json()) == (413, known.json())
    assert sent == 5


def test_the_network_needs_a_login(tmp_path: Path) -> None:
    """Beyond loopback, and behind a proxy, without a way to log in there is one line at the start, and for a
    port that is taken too; a user is one.
    """
    public = ServeSettings(port=0, public_url="https://h.example")
    for settings in (ServeSettings(host="0.0.0.0", port=0), public):
        with pytest.raises(ServeError, match="needs a login") as refused:
            bind(settings, tmp_path)
        assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == [], "looking makes no file"
    Users(Database(tmp_path)).add("ada", "viewer", "correct horse", Author("test"))
    bind(ServeSettings(host="0.0.0.0", port=0), tmp_path).close()
    with bind(ServeSettings(port=0), tmp_path) as listener:
        port = listener.getsockname()[1]
        assert url_of(listener) == f"http://127.0.0.1:{port}/"
        with pytest.raises(ServeError, match=f"127.0.0.1:{port}"):
            bind(ServeSettings(port=port), tmp_path)


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@pytest.mark.parametrize("path", ["/api/v0/limits/hop_latency", "/api/v0/limits"])
def test_a_change_needs_a_token_on_loopback_too(api: Any, tmp_path: Path, method: str, path: str) -> None:
    """Other users of the machine can read, and change nothing: the token is in a file of this user alone."""
    assert ask(api, tmp_path, "GET", "/api/v0/flows").status_code != 401
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600
    token = (tmp_path / "token").read_text().strip()
    for wrong in ("", "Bearer", f"Bearer {token}x", f"Basic {token}", "Bearer None"):
        refused = ask(api, tmp_path, method, path, headers={"authorization": wrong}, json={})
        assert refused.status_code == 401, wrong
        assert "the file `token` in the data folder" in refused.json()["error"]
    right = ask(api, tmp_path, method, path, headers={"authorization": f"Bearer {token}"}, json={})
    assert right.status_code != 401
    sql = ask(
        api, tmp_path, "POST", "/api/v0/sql", headers={"authorization": ""}, json={"sql": "FROM events"}
    )
    assert sql.status_code != 401
    assert ask(api, tmp_path, "GET", "/healthz").status_code == 200
    assert (tmp_path / "token").read_text().strip() == token, "a restart keeps it"


@pytest.mark.parametrize("trap", ["link", "open", "short"])
def test_a_token_that_others_could_know_is_not_used(api: Any, tmp_path: Path, trap: str) -> None:
    """A link, a file that others can read, or an empty one: nothing can be changed, with any token."""
    other = tmp_path / "other"
    other.write_text("0123456789abcdef0123" if trap != "short" else "")
    other.chmod(0o644 if trap == "open" else 0o600)
    (tmp_path / "token").symlink_to(other) if trap == "link" else other.rename(tmp_path / "token")
    for given in ("0123456789abcdef0123", "", "None"):
        headers = {"authorization": f"Bearer {given}"}
        url = "/api/v0/limits/hop_latency"
        assert ask(api, tmp_path, "PATCH", url, headers=headers, json={}).status_code == 401


@pytest.mark.parametrize("given_url", ["https://hopscope.example", "https://hopscope.example:8443/"])
def test_a_proxy_in_front_is_known_by_its_address(tmp_path: Path, given_url: str) -> None:
    """Its Host and Origin are taken, others are not, and the cookie is for TLS alone."""
    from hopscope.serve.api import create_app

    url = given_url.rstrip("/")
    public = url.partition("//")[2]
    settings = ServeSettings(token=TOKEN, public_url=given_url)
    app = create_app(settings, tmp_path)

    async def talk() -> None:
        transport = httpx.ASGITransport(app.state.guarded, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=url) as client:
            given = await client.post("/login", data={"token": TOKEN}, headers={"origin": url})
            assert given.status_code == 303
            assert given.headers["set-cookie"].endswith("; Secure")
            assert given.headers["set-cookie"].startswith("__Host-hopscope_session_")
            change: dict[str, Any] = {"headers": {"origin": url}, "json": {"change": 1}}
            client.cookies.clear()
            client.headers["authorization"] = f"Bearer {TOKEN}"
            limits = "/api/v0/limits/hop_latency"
            assert (await client.patch(limits, **change)).status_code == 503  # no collector, but allowed
            for host, origin, status in (
                (public, "https://evil.example", 403),
                (public, url.replace("https", "http"), 503),
                ("127.0.0.1:8080", url, 503),
                ("evil.example", url, 421),
            ):
                change["headers"] = {"host": host, "origin": origin}
                assert (await client.patch(limits, **change)).status_code == status, (host, origin)
        app.state.context.close()

    asyncio.run(talk())


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"key_file": "key.pem"}, "key_file without cert_file"),
        ({"proxy_user_header": "X-User"}, "without proxy_addresses"),
        ({"proxy_addresses": ("proxy.example",)}, "expected a network"),
    ],
)
def test_settings_that_would_open_the_door_are_errors(given: dict[str, Any], expected: str) -> None:
    """A trusted header without an address that it may come from, and others."""
    with pytest.raises(ValidationError, match=expected):
        ServeSettings(**given)
