"""Logins of browsers: cookies, how sessions begin and end, and what they may change."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute

from hopscope.operators import sessions as operators
from hopscope.operators.audit import Author
from hopscope.operators.codes import Codes
from hopscope.operators.database import Database, OperatorsError
from hopscope.operators.sessions import MAX_OF_ONE
from hopscope.serve.access import access as module
from hopscope.serve.access import identity
from hopscope.serve.access.guard import LOGGING_IN, OWN, READING, SAFE, below
from hopscope.serve.access.pages import safe_next
from hopscope.serve.live import stream as streaming
from support.processes.small_disk import fill, small_disk
from support.waiting import HANG_SECONDS

from .conftest import PASSWORDS, TOKEN, Server, run

LIMITS = "/api/v0/limits/hop_latency"
TLS = "https://127.0.0.1:8080"


def test_who_asks(made: Any) -> None:
    """Without a login a viewer on loopback, nobody beyond; a token and a user are named with their role."""

    async def talk() -> None:
        local, open_to_all = made(), made(host="192.0.2.1", token=TOKEN)
        async with local.browser() as browser:
            found = (await browser.get("/api/v0/session")).json()
            assert (found["user"], found["role"], found["login_needed"]) == (None, "viewer", False)
        async with open_to_all.browser() as browser:
            found = (await browser.get("/api/v0/session")).json()
            assert (found["user"], found["role"], found["login_needed"]) == (None, None, True)
            assert (await browser.get("/api/v0/limits")).status_code == 401
            headers = {"authorization": f"Bearer {TOKEN}"}
            found = (await browser.get("/api/v0/session", headers=headers)).json()
            assert (found["user"], found["role"], found["csrf"]) == ("token", "operator", None)
            assert found["authenticated_by"] == "token"
        browser, found = await open_to_all.logged_in("vera")
        assert (found["user"], found["role"], found["authenticated_by"]) == ("vera", "viewer", "password")
        assert (await browser.get("/api/v0/session")).json() == found
        await browser.aclose()

    run(talk())


@pytest.mark.parametrize("base", ["http://127.0.0.1:8080", TLS])
def test_the_cookie_is_a_secret_of_its_own(made: Any, base: str) -> None:
    """HttpOnly, SameSite=Strict, over TLS also Secure and bound to the host; it is neither password nor
    token, and the file has only its hash.
    """

    async def talk() -> None:
        server = made(token=TOKEN)
        async with server.browser(base=base) as browser:
            given = await browser.post("/login", data={"token": TOKEN, "next": "/flows?q=1"})
            assert (given.status_code, given.headers["location"]) == (303, "/flows?q=1")
            cookie = given.headers["set-cookie"]
            secret = cookie.partition("=")[2].partition(";")[0]
            assert len(secret) >= 43
            assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
            assert ("Secure" in cookie.split("; ")) == (base == TLS)
            assert cookie.startswith("__Host-") == (base == TLS)
            assert "Domain" not in cookie
            assert TOKEN not in cookie
            assert (await browser.get("/api/v0/audit")).status_code == 200
            server.access.database.close()
            kept = b"".join(path.read_bytes() for path in server.folder.glob("console.sqlite*"))
            assert secret.encode() not in kept

    run(talk())


def test_a_prepared_session_is_not_taken_over(made: Any) -> None:
    """Session fixation: a login gives another id, whatever cookie was there, and ends the session of that."""

    async def talk() -> None:
        server = made(token=TOKEN)
        mallory, _ = await server.logged_in("vera", client="192.0.2.66")
        planted = dict(mallory.cookies)
        victim = server.browser()
        for name, value in planted.items():
            victim.cookies.set(name, value, domain="127.0.0.1")
        await victim.post("/api/v0/login", json={"user": "ada", "password": PASSWORDS["ada"]})
        assert dict(victim.cookies).keys() == planted.keys()
        assert dict(victim.cookies) != planted
        assert (await mallory.get("/api/v0/flows")).status_code == 401
        made_up = server.browser()
        made_up.cookies.set("hopscope_session_8080", "A" * 43)
        assert (await made_up.get("/api/v0/flows")).status_code == 401
        for each in (mallory, victim, made_up):
            await each.aclose()

    run(talk())


def test_sessions_end(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """By logout, by being revoked, by another password, by removal of the user, and a stolen cookie with
    them.
    """
    monkeypatch.setattr(module, "KEPT_SECONDS", 0.0)

    async def talk() -> None:
        server: Server = made(token=TOKEN)
        users, by = server.access.users, Author("test")

        async def ends(browser: Any) -> bool:
            thief = server.browser(client="192.0.2.66")
            thief.cookies.update(browser.cookies)
            found = {(await each.get("/api/v0/audit")).status_code for each in (browser, thief)}
            await browser.aclose()
            await thief.aclose()
            assert len(found) == 1
            return found == {401}

        browser, state = await server.logged_in("ada")
        assert (await browser.post("/api/v0/logout", headers={"x-hopscope-csrf": state["csrf"]})).json()[
            "ended"
        ]
        assert "Max-Age=0" in str(
            (await browser.post("/api/v0/logout")).headers.get("set-cookie", "Max-Age=0")
        )
        assert await ends(browser)

        first, _ = await server.logged_in("ada")
        second, state = await server.logged_in("ada")
        listed = (await second.get("/api/v0/sessions")).json()["items"]
        number = next(each["number"] for each in listed if not each["current"])
        ended = await second.delete(f"/api/v0/sessions/{number}", headers={"x-hopscope-csrf": state["csrf"]})
        assert ended.status_code == 200
        assert await ends(first)
        assert not await ends(second)

        browser, _ = await server.logged_in("ada")
        users.set_password("ada", "a newer password", by)
        assert await ends(browser)
        browser, _ = await server.logged_in("vera")
        users.remove("vera", by)
        users.add("vera", "operator", PASSWORDS["vera"], by)
        assert await ends(browser), "another user of the same name does not inherit it"

    run(talk())


def test_an_unused_session_ends_and_an_old_one_too(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the wall clock, moved on here: after the idle time, and after the longest time in spite of use."""
    monkeypatch.setattr(module, "KEPT_SECONDS", 0.0)
    now = [1_000_000 * 10**9]
    monkeypatch.setattr(time, "time_ns", lambda: now[0])

    async def talk() -> None:
        server = made(token=TOKEN, session_idle_seconds=3600, session_seconds=10_000)

        async def alive(browser: Any, later: int) -> bool:
            now[0] += later * 10**9
            answer = await browser.get("/api/v0/audit")
            return bool(answer.status_code == 200)

        browser, _ = await server.logged_in("ada")
        assert await alive(browser, 3500)
        assert await alive(browser, 3500)
        assert not await alive(browser, 3700), "unused for too long"
        browser, _ = await server.logged_in("ada")
        assert [await alive(browser, 3000) for _ in range(4)] == [True, True, True, False]

    run(talk())


def test_a_role_changes_in_open_sessions(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator who is made a viewer may change nothing from the next request on."""
    monkeypatch.setattr(module, "KEPT_SECONDS", 0.0)

    async def talk() -> None:
        server = made()
        browser, state = await server.logged_in("ada")
        headers = {"x-hopscope-csrf": state["csrf"]}
        assert (await browser.patch(LIMITS, json={}, headers=headers)).status_code == 503  # no collector
        server.access.users.set_role("ada", "viewer", Author("test"))
        assert (await browser.patch(LIMITS, json={}, headers=headers)).status_code == 403

    run(talk())


def test_sessions_are_bounded(made: Any) -> None:
    """A user's further login ends the session that was unused for longest."""

    async def talk() -> None:
        server: Server = made(token=TOKEN)
        first, _ = await server.logged_in("ada")
        for _ in range(MAX_OF_ONE):
            await server.logged_in("ada")
        assert len(server.access.sessions.all("ada")) == MAX_OF_ONE
        server.access.forget_sessions()
        assert (await first.get("/api/v0/audit")).status_code == 401

    run(talk())


def test_a_code_logs_in_once(made: Any) -> None:
    """`hopscope open`: an operator's session by its address; used again, made up or too old it is refused."""

    async def talk() -> None:
        server: Server = made()
        code = Codes(server.access.database).make("ada")
        async with server.browser() as browser:
            welcome = await browser.get(f"/login?code={code}&next=/events")
            assert welcome.status_code == 200
            assert '<meta http-equiv="refresh" content="0;url=/events">' in welcome.text
            state = (await browser.get("/api/v0/session")).json()
            assert (state["user"], state["role"], state["authenticated_by"]) == ("ada", "operator", "code")
        async with server.browser() as browser:
            for wrong in (code, "made-up", ""):
                refused = await browser.get(f"/login?code={wrong}")
                assert refused.status_code == 401
                assert "set-cookie" not in refused.headers
            with pytest.MonkeyPatch.context() as patch:
                code = Codes(server.access.database).make("ada")
                later = 301 * 10**9
                real = time.time_ns
                patch.setattr(time, "time_ns", lambda: real() + later)
                assert (await browser.get(f"/login?code={code}")).status_code == 401

    run(talk())


def changing(server: Server) -> list[tuple[str, str]]:
    """Every route that is not only for reading, with its parameters filled in."""
    return [
        (method, route.path.format_map(Filled()))
        for route in server.app.routes
        if isinstance(route, APIRoute) and route.include_in_schema
        for method in route.methods or ()
        if method not in SAFE and (method, route.path) not in READING | LOGGING_IN
    ]


class Filled(dict[str, str]):
    """Any parameter of a path."""

    def __missing__(self, key: str) -> str:
        return "1"


def test_a_viewer_changes_nothing(made: Any) -> None:
    """Every changing route of the application, also one that will be added: 401 without a login, 403 for a
    viewer with and without the CSRF token, and for an operator without it.
    """

    async def talk() -> None:
        server: Server = made(viewer_token=TOKEN)
        routes = changing(server)
        assert len(routes) > 8
        assert ("PATCH", "/api/v0/limits") in routes
        viewer, state = await server.logged_in("vera")
        operator, _ = await server.logged_in("ada")
        stranger, csrf = server.browser(), {"x-hopscope-csrf": state["csrf"]}
        program = server.browser(authorization=f"Bearer {TOKEN}")
        for method, path in routes:
            assert (await stranger.request(method, path, json={})).status_code == 401, path
            assert (await operator.request(method, path, json={})).status_code == 403, path
            if not below(path, OWN):
                assert (await viewer.request(method, path, json={}, headers=csrf)).status_code == 403, path
                assert (await program.request(method, path, json={})).status_code == 403, path
            assert (await viewer.request(method, path, json={})).status_code == 403, path
        assert (await viewer.post("/api/v0/sql", json={"sql": "FROM events"})).status_code not in (401, 403)
        before = server.access._counts["access_refused_total.role"]
        assert before > 0

    run(talk())


def test_a_change_with_a_cookie_needs_the_csrf_token(made: Any) -> None:
    """Of this session, as a header; another session's, an empty one, or one in the query is none. A bearer
    token needs none.
    """

    async def talk() -> None:
        server: Server = made()
        ada, state = await server.logged_in("ada")
        _, other = await server.logged_in("ada")
        for wrong in ("", "x", other["csrf"], state["csrf"] + "0", "ä"):
            headers = {b"x-hopscope-csrf": wrong.encode()}
            refused = await ada.patch(f"{LIMITS}?csrf={state['csrf']}", json={}, headers=headers)
            assert refused.status_code == 403, wrong
        right = await ada.patch(LIMITS, json={}, headers={"x-hopscope-csrf": state["csrf"]})
        assert right.status_code == 503  # no collector runs
        token = (server.folder / "token").read_text().strip()
        async with server.browser(authorization=f"Bearer {token}") as program:
            assert (await program.patch(LIMITS, json={})).status_code == 503

    run(talk())


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:8081"},
        {"origin": "http://127.0.0.1:8080.evil.example"},
        {"origin": ""},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_another_sites_page_neither_changes_nor_logs_in(made: Any, headers: dict[str, str]) -> None:
    """With all cookies and the right CSRF token, and a login with the right password (login CSRF)."""

    async def talk() -> None:
        server: Server = made()
        ada, state = await server.logged_in("ada")
        given = headers | {"x-hopscope-csrf": state["csrf"]}
        assert (await ada.patch(LIMITS, json={}, headers=given)).status_code == 403
        form = {"user": "ada", "password": PASSWORDS["ada"]}
        for refused in (
            await ada.post("/login", headers=headers, data=form),
            await ada.post("/api/v0/login", headers=headers, json=form),
        ):
            assert (refused.status_code, "set-cookie" in refused.headers) == (403, False)

    run(talk())


def test_two_cookies_of_the_name_are_none(made: Any) -> None:
    """A cookie that another host of the domain has planted beside the right one decides nothing; other
    cookies, however they are written, do no harm.
    """

    async def talk() -> None:
        server: Server = made(token=TOKEN)
        ada, _ = await server.logged_in("ada")
        name, secret = next(iter(ada.cookies.items()))
        for line, status in (
            (f"{name}={secret}", 200),
            (f'a={{"x"; b; {name}={secret}; c="', 200),
            (f"{name}={secret}; {name}=planted", 401),
            (f"x{name}={secret}", 401),
        ):
            async with server.browser(cookie=line) as browser:
                assert (await browser.get("/api/v0/audit")).status_code == status, line

    run(talk())


@pytest.mark.parametrize(
    "there",
    [
        "https://evil.example", "//evil.example", "/\\evil.example", "\\/evil.example", "/\t/evil.example",
        "javascript:alert(1)", "evil", "", "/\r\nset-cookie: a=b", "/ /evil.example", "/login?next=/login",
        "http:/evil.example",
    ],
)  # fmt: skip
def test_a_login_leads_to_no_other_site(made: Any, there: str) -> None:
    """Open redirects: whatever `next` says, the browser stays here."""
    assert safe_next(there) == "/"

    async def talk() -> None:
        async with made(token=TOKEN).browser() as browser:
            given = await browser.post("/login", data={"token": TOKEN, "next": there})
            assert (given.status_code, given.headers["location"]) == (303, "/")

    run(talk())


def test_a_login_leads_where_it_was_wanted() -> None:
    """Paths with queries as they were, quoted."""
    for there in ("/", "/flows?q=10.0.0.1%2F24&from=-15m", "/ports/leaf-1/3", "/events?kind=a&kind=b"):
        assert safe_next(there) == there
    assert safe_next("/flows?q=ä") == "/flows?q=%C3%A4"


def test_what_was_typed_is_text_on_the_page(made: Any) -> None:
    """Markup in `next` and in a name is shown, not run; the page loads nothing and runs nothing from
    elsewhere.
    """

    async def talk() -> None:
        async with made().browser() as browser:
            evil = "/\"><script>alert(1)</script>'"
            for page in (
                await browser.get("/login", params={"next": evil}),
                await browser.post("/login", data={"user": evil, "password": evil, "next": evil}),
            ):
                assert "<script" not in page.text
                assert "style=" not in page.text
                policy = page.headers["content-security-policy"]
                assert "default-src 'none'" in policy
                assert "unsafe" not in policy
                assert page.headers["x-frame-options"] == "DENY"

    run(talk())


def test_a_websocket_ends_with_its_session(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is opened with the session, and closed when the next message would go out after the session's end;
    without one it is not opened.
    """
    from hopscope.serve.access import guard

    monkeypatch.setattr(identity, "CHECK_SECONDS", -1.0)
    monkeypatch.setattr(module, "KEPT_SECONDS", 0.0)

    async def talk() -> None:
        server: Server = made(token=TOKEN)
        ada, _ = await server.logged_in("ada")
        name, secret = next(iter(ada.cookies.items()))
        go_on = asyncio.Event()

        async def inner(scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "websocket.accept"})
            await go_on.wait()
            await send({"type": "websocket.send", "text": "secret"})

        async def opened(cookie: str) -> list[str]:
            sent: list[str] = []

            async def send(message: Any) -> None:
                sent.append(message["type"])

            headers = [(b"host", b"127.0.0.1:8080"), (b"cookie", cookie.encode())]
            scope = {"type": "websocket", "path": "/api/v0/live", "headers": headers, "scheme": "ws"}
            await guard.Guard(inner, server.access)(scope, None, send)  # type: ignore[arg-type]
            return sent

        assert await opened("") == ["websocket.close"]
        talking = asyncio.create_task(opened(f"{name}={secret}"))
        await asyncio.sleep(0.05)
        server.access.sessions.end(server.access.sessions.all()[0].number)
        go_on.set()
        assert await talking == ["websocket.accept", "websocket.close"]

    run(talk())


@pytest.mark.parametrize("ends", ["the session", "the user", "the password"])
def test_a_live_feed_ends_with_its_session(made: Any, monkeypatch: pytest.MonkeyPatch, ends: str) -> None:
    """It goes on for as long as who reads it may, and ends by itself; then a login is needed."""
    monkeypatch.setattr(identity, "CHECK_SECONDS", -1.0)
    monkeypatch.setattr(module, "KEPT_SECONDS", 0.0)
    monkeypatch.setattr(streaming, "KEEPALIVE_SECONDS", 0.0)
    monkeypatch.setattr(streaming, "POLL_SECONDS", 0.01)

    async def talk() -> None:
        server: Server = made(token=TOKEN)
        vera, _ = await server.logged_in("vera")
        name, secret = next(iter(vera.cookies.items()))
        frames: asyncio.Queue[bytes] = asyncio.Queue()

        async def receive() -> Any:
            await asyncio.Event().wait()

        async def send(message: Any) -> None:
            frames.put_nowait(message.get("body", b""))

        scope = {
            "type": "http", "method": "GET", "path": "/api/v0/events/live", "query_string": b"",
            "headers": [(b"host", b"127.0.0.1:8080"), (b"cookie", f"{name}={secret}".encode())],
            "scheme": "http", "client": ("192.0.2.7", 4711), "server": ("127.0.0.1", 8080),
        }  # fmt: skip
        feed = asyncio.create_task(server.guarded(scope, receive, send))
        while await frames.get() != b": still here\n\n":
            assert not feed.done()
        if ends == "the session":
            server.access.sessions.end(server.access.sessions.all()[0].number)
        elif ends == "the user":
            server.access.users.remove("vera", Author("test"))
        else:
            server.access.users.set_password("vera", "one more password", Author("test"))
        await asyncio.wait_for(feed, HANG_SECONDS)
        assert (await vera.get("/api/v0/events/live")).status_code == 401
        await vera.aclose()

    run(talk())


def test_a_full_disk_logs_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That a session was used now cannot be noted then; it goes on, and notes it once there is room."""
    monkeypatch.setattr(operators, "_SEEN_EVERY_NS", -1)
    with small_disk(tmp_path / "small", "1m") as folder:
        database = Database(folder)
        sessions = operators.Sessions(database, 3600.0, 86_400.0)
        secret = sessions.start("token", "operator", "token", "192.0.2.7")
        first = sessions.find(secret)
        assert first is not None
        kept = sessions.find(secret)
        assert kept is not None
        assert kept.seen_ns > first.seen_ns
        full = fill(folder)
        with pytest.raises(OperatorsError, match="full"):
            sessions.start("token", "operator", "token", "192.0.2.7")
        found = sessions.find(secret)
        assert found is not None
        full.unlink()
        sessions.find(secret)
        later = sessions.find(secret)
        assert later is not None
        assert later.seen_ns > found.seen_ns
        database.close()
