"""Login by OpenID Connect, against a small real provider: who comes in, and every answer that must not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from joserfc.jwk import ECKey, OctKey

from hopscope.base.errors import HopscopeError
from hopscope.base.tls import client_context
from hopscope.serve.access.lock_out import LockOut
from hopscope.serve.access.oidc import Provider as Client
from hopscope.settings.serve import OidcSettings
from support.servers.oidc_provider import CLIENT, SECRET, Provider, provider

from .conftest import Server, run


@pytest.fixture
def idp() -> Iterator[Provider]:
    """The provider."""
    with provider() as found:
        yield found


def settings(idp: Provider, **more: Any) -> dict[str, Any]:
    """Settings of a server that uses it."""
    given = {"issuer": idp.issuer, "client_id": CLIENT, "client_secret": SECRET, **more}
    return {"public_url": "http://127.0.0.1:8080", "oidc": OidcSettings.model_validate(given)}


async def sent(browser: httpx.AsyncClient, target: str = "/flows?q=1") -> str:
    """Begin a login; the address at the provider that the browser is sent to."""
    left = await browser.get("/login/oidc", params={"next": target})
    assert left.status_code == 303
    return left.headers["location"]


async def returned(address: str) -> str:
    """What the provider sends the browser back to."""
    async with httpx.AsyncClient() as client:
        back = (await client.get(address)).headers["location"]
    assert back.startswith("http://127.0.0.1:8080/login/oidc/callback?")
    return back


async def came_in(server: Server) -> httpx.Response:
    """A whole login of a new browser; the last answer."""
    async with server.browser() as browser:
        return await browser.get(await returned(await sent(browser)))


def test_a_user_comes_in_with_a_role(made: Any, idp: Provider) -> None:
    """By the claim of groups; the browser ends where it wanted, by a page of this server, with a session that
    changes with the CSRF token as any other.
    """
    idp.claims["groups"] = ["staff", "noc"]

    async def talk() -> None:
        server = made(**settings(idp, operators=["noc"]))
        async with server.browser() as browser:
            page = await browser.get("/login")
            assert 'href="/login/oidc?next=%2F"' in page.text
            welcome = await browser.get(await returned(await sent(browser)))
            assert welcome.status_code == 200
            assert '<meta http-equiv="refresh" content="0;url=/flows?q=1">' in welcome.text
            state = (await browser.get("/api/v0/session")).json()
            assert (state["user"], state["role"], state["authenticated_by"]) == ("grace", "operator", "oidc")
            headers = {"x-hopscope-csrf": state["csrf"]}
            changed = await browser.patch("/api/v0/limits/hop_latency", json={}, headers=headers)
            assert changed.status_code == 503  # no collector runs
            assert "hopscope_oidc_8080" not in browser.cookies

    run(talk())


@pytest.mark.parametrize(
    ("groups", "more", "role"),
    [
        (["staff"], {"operators": ["noc"]}, "viewer"),
        ("noc", {"operators": ["noc"]}, "operator"),
        (["staff"], {"operators": ["noc"], "viewers": ["staff"]}, "viewer"),
        (["guests"], {"operators": ["noc"], "viewers": ["staff"]}, None),
        ({"noc": True}, {"operators": ["noc"], "viewers": ["staff"]}, None),
        (7, {"viewers": ["staff"]}, None),
    ],
)
def test_the_role_is_that_of_the_claim(
    made: Any, idp: Provider, groups: Any, more: dict[str, Any], role: str | None
) -> None:
    """Without any of the wanted values nobody comes in, if viewers are named; odd claims are no error."""
    idp.claims["groups"] = groups

    async def talk() -> None:
        server = made(**settings(idp, **more))
        answer = await came_in(server)
        assert answer.status_code == (200 if role else 403)
        assert [each.role for each in server.access.sessions.all("grace")] == ([role] if role else [])

    run(talk())


@pytest.mark.parametrize("lie", ["nonce", "aud", "iss", "exp", "key", "none", "azp", "name", "hmac"])
def test_a_token_that_does_not_fit_lets_nobody_in(made: Any, idp: Provider, lie: str) -> None:
    """Of another login, client or provider; old; signed by another key, by none, or by a secret of the
    client; with a name that is none.
    """
    now = int(time.time())
    lies: dict[str, dict[str, Any]] = {
        "nonce": {"nonce": "another"},
        "aud": {"aud": "another client"},
        "iss": {"iss": "http://127.0.0.1:1/realm"},
        "exp": {"exp": now - 3600, "iat": now - 7200},
        "azp": {"aud": [CLIENT, "another"], "azp": "another"},
        "name": {"preferred_username": "grace\nadmin"},
    }
    idp.lies = lies.get(lie, {})
    if lie == "key":
        idp.signing = ECKey.generate_key("P-256", {"kid": "one"})
    elif lie == "none":
        idp.algorithm = "none"
    elif lie == "hmac":
        idp.algorithm, idp.signing = "HS256", OctKey.import_key(SECRET * 2)

    async def talk() -> None:
        server = made(**settings(idp))
        answer = await came_in(server)
        assert answer.status_code in (403, 502)
        assert "text/html" in answer.headers["content-type"]
        assert not server.access.sessions.all()
        assert idp.tokens_given == 1

    run(talk())


def test_new_keys_of_the_provider_are_fetched(made: Any, idp: Provider) -> None:
    """A token that is signed by a key that was published since is right."""

    async def talk() -> None:
        server = made(**settings(idp))
        assert (await came_in(server)).status_code == 200
        idp.key = ECKey.generate_key("P-256", {"kid": "one", "use": "sig"})
        assert (await came_in(server)).status_code == 200

    run(talk())


def test_an_answer_belongs_to_one_login_of_one_browser(made: Any, idp: Provider) -> None:
    """Login CSRF: the answer to an attacker's login is refused in the victim's browser; a changed state, a
    used answer, another provider's and a refusal are, too.
    """

    async def talk() -> None:
        server = made(**settings(idp))
        async with server.browser() as mallory, server.browser() as victim:
            stolen = await returned(await sent(mallory))
            assert (await victim.get(stolen)).status_code == 400
            await sent(victim)
            assert (await victim.get(stolen)).status_code == 400
            assert (await mallory.get(stolen)).status_code == 200
            assert (await mallory.get(stolen)).status_code == 400, "once"
        for change, status in (
            ({"state": "x"}, 400),
            ({"iss": "http://evil.example"}, 400),
            ({"code": "made-up"}, 502),
        ):
            async with server.browser() as browser:
                back = urlsplit(await returned(await sent(browser)))
                query = {key: values[0] for key, values in parse_qs(back.query).items()} | change
                assert (await browser.get(back.path, params=query)).status_code == status, change
        async with server.browser() as browser:
            state = parse_qs(urlsplit(await sent(browser)).query)["state"][0]
            answer = {"error": "access_denied<script>", "state": state}
            refused = await browser.get("/login/oidc/callback", params=answer)
            assert refused.status_code == 401
            assert "<script" not in refused.text
        async with server.browser() as browser:
            left = await browser.get("/login/oidc?next=//evil.example")
            assert "evil" not in left.headers["location"]
            cookie = left.headers["set-cookie"]
            assert {"HttpOnly", "SameSite=Lax"} <= set(cookie.split("; "))

    run(talk())


def test_a_provider_that_is_away_or_another_is_one_line(made: Any, idp: Provider) -> None:
    """The page says so with 503; other logins go on; a configuration of another issuer is not believed."""

    async def talk() -> None:
        for issuer in ("http://127.0.0.1:1", idp.issuer.replace("/realm", "/other")):
            server = made(**settings(idp, issuer=issuer))
            async with server.browser() as browser:
                away = await browser.get("/login/oidc")
                assert away.status_code == 503
                assert "does not answer" in away.text
            await server.logged_in("ada")

    run(talk())


def test_beginning_logins_is_cheap(made: Any, idp: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anyone may begin one: certificates are read once, and a provider that is away is asked once."""
    contexts: list[Any] = []

    def counted(*given: Any) -> Any:
        contexts.append(client_context(*given))
        return contexts[-1]

    monkeypatch.setattr("hopscope.serve.access.oidc.client_context", counted)

    async def talk() -> None:
        async with made(**settings(idp)).browser() as browser:
            await asyncio.gather(*(sent(browser) for _ in range(5)))
        assert len(contexts) == 1
        async with made(**settings(idp, issuer="http://127.0.0.1:1")).browser() as browser:
            away = await asyncio.gather(*(browser.get("/login/oidc") for _ in range(5)))
            assert {answer.status_code for answer in away} == {503}
        assert len(contexts) == 2

    run(talk())


def test_strangers_take_no_place_of_a_login(made: Any, idp: Provider) -> None:
    """However many logins others begin meanwhile, one that has begun ends well. Its cookie is of use to this
    server alone, unchanged, and a browser keeps it, whatever page it wanted.
    """

    async def talk() -> None:
        server = made(**settings(idp))
        begin = server.access.oidc.begin
        async with server.browser() as browser:
            back = await returned(await sent(browser, "/ask?text=" + "x" * 8000))
            cookie = browser.cookies["hopscope_oidc_8080"]
            assert len(cookie) < 4000
            for _ in range(1100):
                await begin("/")
            for other in (cookie[:-3], cookie[::-1], "", "\xe9", (await begin("/"))[1]):
                async with server.browser() as thief:
                    sends = [("cookie", f"hopscope_oidc_8080={other}".encode("latin-1"))]
                    assert (await thief.get(back, headers=sends)).status_code == 400
            assert (await browser.get(back)).status_code == 200

    run(talk())


def test_codes_that_are_made_up_must_wait(made: Any, idp: Provider) -> None:
    """The provider would be asked about each, and might refuse the collector: after 20 it is not, and other
    clients log in.
    """

    async def talk() -> None:
        server = made(**settings(idp))
        server.access.lock_out = LockOut(clock=lambda: 0.0)
        async with server.browser(client="198.51.100.9") as mallory:
            for attempt in range(22):
                back = urlsplit(await returned(await sent(mallory)))
                answer = await mallory.get(f"{back.path}?{back.query}&code=made-up-{attempt}")
            assert answer.status_code == 429
            assert "retry-after" in answer.headers
        assert idp.codes_asked == 20
        assert (await came_in(server)).status_code == 200

    run(talk())


def test_without_what_it_needs_nothing_starts(idp: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    """No address to come back to, and no library: a line that says what to do."""
    wanted = settings(idp)["oidc"]
    with pytest.raises(HopscopeError, match=r"needs serve\.public_url"):
        Client(wanted, "")
    monkeypatch.setitem(__import__("sys").modules, "authlib", None)
    with pytest.raises(HopscopeError, match=r"hopscope\[oidc\]"):
        Client(wanted, "http://127.0.0.1:8080")
