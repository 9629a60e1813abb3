"""Cookies: how they are sent, and their names, which must not clash with those of other sites and ports."""

from __future__ import annotations

from starlette.datastructures import Headers

SESSION = "hopscope_session"
OIDC = "hopscope_oidc"


def name_of(base: str, port: str, *, secure: bool) -> str:
    """Name of a cookie: `__Host-` keeps other hosts of the domain from setting it (RFC 6265bis, 4.1.3.2); the
    port keeps collectors on one host apart, since cookies do not.
    """
    return f"__Host-{base}_{port}" if secure else f"{base}_{port}"


def read(headers: Headers, name: str) -> str | None:
    """The value of a cookie, whatever cookies other programs of the host have set; None: it is missing, or
    there are several.
    """
    values = {
        value.strip('"')
        for line in headers.getlist("cookie")
        for key, _, value in (part.strip().partition("=") for part in line.split(";"))
        if key == name
    }
    return values.pop() if len(values) == 1 else None


def written(name: str, value: str, *, secure: bool, seconds: int | None = None, lax: bool = False) -> str:
    """A Set-Cookie header; `seconds`: 0 removes the cookie, None keeps it until the browser is closed. `lax`:
    browsers also send it when they follow a link from another site.
    """
    age = "" if seconds is None else f"; Max-Age={seconds}"
    site = "Lax" if lax else "Strict"
    return f"{name}={value}; Path=/; HttpOnly; SameSite={site}{age}{'; Secure' if secure else ''}"
