"""A proxy that authenticates: whose headers are believed, and what they make."""

from __future__ import annotations

from typing import Any

from .conftest import Server, run

PROXY = "192.0.2.10"
SETTINGS: dict[str, Any] = {
    "proxy_addresses": (PROXY, "2001:db8::/64"),
    "proxy_user_header": "X-Forwarded-User",
    "proxy_role_header": "X-Forwarded-Groups",
    "proxy_operators": ("noc",),
}
LIMITS = "/api/v0/limits/hop_latency"


async def asked(server: Server, client: str, *headers: tuple[str, str]) -> dict[str, Any]:
    """What the server thinks of a request from an address with these headers."""
    async with server.browser(client=client) as browser:
        return (await browser.get("/api/v0/session", headers=list(headers))).json()


def test_a_trusted_proxy_names_the_user(made: Any) -> None:
    """With the role of the user's groups; without a group, or with none that counts, a viewer."""

    async def talk() -> None:
        server = made(**SETTINGS)
        user = ("X-Forwarded-User", "grace@example.net")
        for client in (PROXY, f"::ffff:{PROXY}", "2001:db8::7"):
            found = await asked(server, client, user, ("X-Forwarded-Groups", "staff, noc"))
            assert (found["user"], found["role"]) == ("grace@example.net", "operator")
            assert found["authenticated_by"] == "proxy"
        assert (await asked(server, PROXY, user))["role"] == "viewer"
        assert (await asked(server, PROXY, user, ("X-Forwarded-Groups", "nocturnal")))["role"] == "viewer"
        plain = made(proxy_addresses=(PROXY,), proxy_user_header="X-User", proxy_role="operator")
        assert (await asked(plain, PROXY, ("X-User", "grace")))["role"] == "operator"

    run(talk())


def test_headers_from_elsewhere_are_not_believed(made: Any) -> None:
    """An address that is no proxy's, also if X-Forwarded-For says it is; two headers of the name, since the
    client sent one of them; names that are none; headers that look alike to other servers.
    """

    async def talk() -> None:
        server = made(**SETTINGS)
        user, groups = ("X-Forwarded-User", "grace"), ("X-Forwarded-Groups", "noc")
        for client, *headers in (
            ("192.0.2.66", user, groups),
            ("127.0.0.1", user, groups),
            ("192.0.2.66", user, groups, ("X-Forwarded-For", PROXY)),
            (PROXY, user, ("x-forwarded-user", "admin"), groups),
            (PROXY, ("X_Forwarded_User", "grace"), groups),
            (PROXY, ("X-Forwarded-User", ""), groups),
            (PROXY, ("X-Forwarded-User", "a" * 500), groups),
            (PROXY, groups),
        ):
            found = await asked(server, client, *headers)
            assert (found["user"], found["role"]) == (None, None), (client, headers)
        found = await asked(server, PROXY, user, groups, ("X-Forwarded-Groups", "x"))
        assert (found["user"], found["role"]) == ("grace", "viewer")

    run(talk())


def test_a_change_behind_a_proxy_needs_the_csrf_token(made: Any) -> None:
    """The browser sends the proxy's proof by itself, as it does a cookie."""

    async def talk() -> None:
        server = made(**SETTINGS)
        headers = {"X-Forwarded-User": "grace", "X-Forwarded-Groups": "noc"}
        async with server.browser(client=PROXY, **headers) as browser:
            assert (await browser.patch(LIMITS, json={})).status_code == 403
            csrf = (await browser.get("/api/v0/session")).json()["csrf"]
            answer = await browser.patch(LIMITS, json={}, headers={"x-hopscope-csrf": csrf})
            assert answer.status_code == 503  # no collector runs
        async with server.browser(client=PROXY, **headers | {"X-Forwarded-User": "eve"}) as browser:
            other = await browser.patch(LIMITS, json={}, headers={"x-hopscope-csrf": csrf})
            assert other.status_code == 403, "another user's"

    run(talk())


def test_the_client_is_the_last_address_that_no_proxy_has(made: Any) -> None:
    """What a client puts before it counts nothing; without a trusted proxy the header counts nothing."""
    from starlette.datastructures import Headers

    server = made(**SETTINGS)
    for peer, line, expected in (
        (PROXY, "198.51.100.1", "198.51.100.1"),
        (PROXY, "1.2.3.4, 198.51.100.1", "198.51.100.1"),
        (PROXY, f"198.51.100.1, {PROXY}", "198.51.100.1"),
        (PROXY, "nonsense", PROXY),
        (PROXY, "198.51.100.1, nonsense", PROXY),
        (PROXY, "", PROXY),
        ("192.0.2.66", "198.51.100.1", "192.0.2.66"),
    ):
        headers = Headers({"x-forwarded-for": line})
        assert server.access.client({"client": (peer, 1)}, headers) == expected, line
