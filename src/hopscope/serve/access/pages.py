"""The login page, which works without JavaScript, and the addresses that end a login elsewhere."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from functools import partial
from urllib.parse import parse_qs, quote

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from ...operators.database import OperatorsError
from ..static import ROOT, files
from . import cookies
from .access import Access
from .login import Login, LoginError

_PLAIN = re.compile(r"/(?![/\\])[^\\\x00-\x20\x7f]*")
_FIELD = re.compile(r"\{(\w+)\}")
_ENDED = "Your session has ended: log in again."
_NO_USERS = '<p class="note">No user has been added yet: <code>hopscope users add NAME</code> does.</p>'
_FRESH = {"cache-control": "no-store"}


def mount(app: Starlette, access: Access) -> None:
    """Serve `/login`."""
    routes = [
        Route("/login", partial(_show, access), methods=["GET"]),
        Route("/login", partial(_take, access), methods=["POST"]),
    ]
    if access.oidc is not None:
        routes += [
            Route("/login/oidc", partial(_leave, access), methods=["GET"]),
            Route("/login/oidc/callback", partial(_return, access), methods=["GET"]),
        ]
    app.router.routes += routes


def safe_next(text: str) -> str:
    """An address of this server to go to next; `/` instead of one that leads elsewhere (open redirect)."""
    if not _PLAIN.fullmatch(text) or re.match(r"/login\b", text):
        return "/"
    return quote(text, safe="/?&=%:@!$'()*+,;~#[]|-._")


async def _show(access: Access, request: Request) -> Response:
    """Show the page, or, with the code of `hopscope open`, begin a session."""
    code, target = request.query_params.get("code"), request.query_params.get("next", "/")
    if code is None:
        return await _page(access, target, _ENDED if "ended" in request.query_params else "")
    try:
        login = await access.log_in_by_code(access.client(request.scope, request.headers), code)
        return await _welcome(access, request, login, target)
    except (LoginError, OperatorsError) as error:
        return await _refused(access, target, error)


async def _take(access: Access, request: Request) -> Response:
    """Log in with the submitted form."""
    try:
        body = await request.body()
    except ClientDisconnect:
        return Response(status_code=400)
    given = {key: values[0] for key, values in parse_qs(body.decode("utf-8", "replace")).items()}
    target, address = given.get("next", "/"), access.client(request.scope, request.headers)
    try:
        if "token" in given:
            login = await access.log_in_by_token(address, given["token"])
        else:
            login = await access.log_in_by_password(
                address, given.get("user", "").strip(), given.get("password", "")
            )
        cookie, _ = await access.start(login, request.scope, request.headers)
    except (LoginError, OperatorsError) as error:
        return await _refused(access, target, error, given)
    return RedirectResponse(safe_next(target), 303, {"set-cookie": cookie, **_FRESH})


async def _leave(access: Access, request: Request) -> Response:
    """Send the browser to the provider."""
    assert access.oidc is not None
    target = request.query_params.get("next", "/")
    try:
        address, pending = await access.oidc.begin(safe_next(target))
    except LoginError as error:
        return await _refused(access, target, error)
    name = access.cookie_name(request.scope, request.headers, cookies.OIDC)
    secure = access.is_secure(request.scope)
    cookie = cookies.written(name, pending, secure=secure, seconds=access.oidc.WAIT_SECONDS, lax=True)
    return RedirectResponse(address, 303, {"set-cookie": cookie, **_FRESH})


async def _return(access: Access, request: Request) -> Response:
    """Complete the login of a browser that the provider has sent back."""
    assert access.oidc is not None
    name = access.cookie_name(request.scope, request.headers, cookies.OIDC)
    kept, address = cookies.read(request.headers, name), access.client(request.scope, request.headers)
    try:
        login, target = await access.log_in_by_provider(address, kept, dict(request.query_params))
        answer = await _welcome(access, request, login, target)
    except (LoginError, OperatorsError) as error:
        answer = await _refused(access, "/", error)
    secure = access.is_secure(request.scope)
    answer.headers.append("set-cookie", cookies.written(name, "", secure=secure, seconds=0, lax=True))
    return answer


async def _welcome(access: Access, request: Request, login: Login, target: str) -> Response:
    """Begin a session, and answer with a page of this server that links on. After a redirect, browsers would
    not send a strict cookie, since the navigation began on another site's page, or in a file.
    """
    cookie, _ = await access.start(login, request.scope, request.headers)
    goal = html.escape(safe_next(target))
    return HTMLResponse(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Hopscope</title>'
        f'<meta http-equiv="refresh" content="0;url={goal}"><p><a href="{goal}">Go on</a></p></html>',
        headers={"set-cookie": cookie, **_FRESH},
    )


async def _refused(
    access: Access, target: str, error: LoginError | OperatorsError, given: Mapping[str, str] | None = None
) -> Response:
    line = str(error)
    status, wait = (error.status, error.wait_seconds) if isinstance(error, LoginError) else (503, 0)
    answer = await _page(access, target, f"{line[:1].upper()}{line[1:]}.", status, given)
    if wait:
        answer.headers["retry-after"] = str(wait)
    return answer


async def _page(
    access: Access, target: str, message: str = "", status: int = 200, given: Mapping[str, str] | None = None
) -> Response:
    """The page; after a refused login, `given` has the submitted fields."""
    name, has_users = (given or {}).get("user", ""), await _has_users(access)
    by_token = "token" in (given or {}) or not (has_users or access.oidc)
    focus = "token" if by_token else "password" if name else "user"
    goal, mood = safe_next(target), " bad" if status != 200 else ""
    provider = f'<a class="button main" href="/login/oidc?next={quote(goal, safe="")}">Single sign-on</a>'
    values = {
        "digest": files().digest,
        "message": f'<p class="message{mood}" role="alert">{html.escape(message)}</p>' if message else "",
        "oidc": provider if access.oidc is not None else "",
        "next": html.escape(goal),
        "user": html.escape(name),
        "token_open": " open" if by_token else "",
        "users": "" if has_users else _NO_USERS,
        **{f"{field}_focus": " autofocus" * (field == focus) for field in ("user", "password", "token")},
    }
    text = (ROOT / "login.html").read_text(encoding="utf-8")
    return HTMLResponse(_FIELD.sub(lambda found: values[found[1]], text), status, _FRESH)


async def _has_users(access: Access) -> bool:
    """Whether any user can log in by password; False if the database cannot be read."""
    try:
        return await access.run(access.users.exist)
    except OperatorsError:
        return False
