"""Routes about logins, sessions, and the audit of changes."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import HTTPException, Path, Query, Request, Response

from ...operators.sessions import Session
from ...present.events import when
from ..access.identity import Identity, identity_of
from ..access.login import LoginError
from ..context import Context, Ctx
from ..models import access as m
from ..models.common import Error
from .router import api_router

router = api_router("access")
_ABSENT: dict[int | str, dict[str, Any]] = {404: {"model": Error, "description": "No such session"}}
_REFUSED: dict[int | str, dict[str, Any]] = {429: {"model": Error, "description": "Too many wrong logins"}}


@router.get("/session", summary="The client and its rights")
async def session(context: Ctx, request: Request) -> m.SessionState:
    """Needs no login, since the login page uses it."""
    identity = await context.access.identify(request.scope, request.headers)
    return _state(context, identity)


@router.post("/login", summary="Log a browser in", responses=_REFUSED)
async def log_in(context: Ctx, request: Request, response: Response, given: m.Credentials) -> m.SessionState:
    """The answer sets a cookie. Programs send `Authorization: Bearer TOKEN` with each request instead."""
    access = context.access
    address = access.client(request.scope, request.headers)
    try:
        if given.token is not None:
            login = await access.log_in_by_token(address, given.token)
        elif given.code is not None:
            login = await access.log_in_by_code(address, given.code)
        elif given.user is not None and given.password is not None:
            login = await access.log_in_by_password(address, given.user, given.password)
        else:
            raise HTTPException(400, "expected user and password, or token, or code")
    except LoginError as error:
        wait = {"retry-after": str(error.wait_seconds)} if error.wait_seconds else None
        raise HTTPException(error.status, str(error), wait) from None
    cookie, identity = await access.start(login, request.scope, request.headers)
    response.headers["set-cookie"] = cookie
    return _state(context, identity)


@router.post("/logout", summary="End this session")
async def log_out(context: Ctx, request: Request, response: Response) -> m.LoggedOut:
    """The answer removes the cookie."""
    identity = identity_of(request.scope)
    response.headers["set-cookie"] = await context.access.end(identity, request.scope, request.headers)
    return m.LoggedOut(ended=identity.session is not None)


@router.get("/sessions", summary="Sessions of browsers")
async def sessions(context: Ctx, request: Request) -> m.SessionList:
    """An operator sees all sessions, other users their own."""
    identity = identity_of(request.scope)
    whose = None if identity.may_change else identity.name
    found = await context.access.run(context.access.sessions.all, whose)
    return m.SessionList(items=[_session(each, identity) for each in found])


@router.delete("/sessions/{number}", summary="End a session", responses=_ABSENT)
async def end(context: Ctx, request: Request, number: Annotated[str, Path(max_length=64)]) -> m.LoggedOut:
    """An operator may end any session, other users their own."""
    identity = identity_of(request.scope)
    whose = None if identity.may_change else identity.name
    access = context.access

    def work() -> bool:
        with access.database.transaction():
            ended = access.sessions.end(number, whose)
            if ended:
                access.audit.add(identity.author, "sessions.end", number)
            return ended

    ended = await access.run(work)
    access.forget_sessions()
    if not ended:
        raise HTTPException(404, "there is no such session, or it is another user's")
    return m.LoggedOut(ended=True)


@router.get("/audit", summary="Changes and their authors")
async def audit(
    context: Ctx,
    before: Annotated[
        int | None, Query(ge=1, le=2**63 - 1, description="Only entries with a lower number.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="Maximum number of entries.")] = 100,
    kind: Annotated[
        str | None, Query(max_length=60, description="Only this kind, or kinds that start with it and a dot.")
    ] = None,
    who: Annotated[str | None, Query(max_length=200, description="Only changes of this user.")] = None,
) -> m.AuditPage:
    """Newest first."""
    found = await context.access.run(context.access.audit.page, limit + 1, before, kind, who)
    items = [
        m.AuditEntry(
            id=entry.id, time=when(entry.time_ns), who=entry.who, address=entry.address, kind=entry.kind,
            subject=entry.subject, before=entry.before, after=entry.after,
        )
        for entry in found[:limit]
    ]  # fmt: skip
    return m.AuditPage(items=items, next=items[-1].id if len(found) > limit else None)


def _state(context: Context, identity: Identity | None) -> m.SessionState:
    access = context.access
    return m.SessionState(
        user=identity.name or None if identity else None,
        role=identity.role if identity else None,
        authenticated_by=identity.how or None if identity else None,
        csrf=identity.csrf_token if identity else None,
        login_needed=access.login_needed,
        logins=list(access.logins),
        cluster=context.is_in_cluster,
        member=context.in_cluster.member if identity and context.is_in_cluster else None,
    )


def _session(found: Session, identity: Identity) -> m.BrowserSession:
    return m.BrowserSession(
        number=found.number, user=found.name, role=found.role, authenticated_by=found.how,
        address=found.address, agent=found.agent, created=when(found.created_ns), seen=when(found.seen_ns),
        current=found.number == identity.session,
    )  # fmt: skip
