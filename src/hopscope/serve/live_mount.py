"""Puts the live page at `/` when it is first asked for: what draws it takes a second to import, and its
snapshots a tenth of a processor.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from importlib import import_module
from typing import Any

from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from .page.snapshot import Poller


def mount(app: FastAPI) -> None:
    """Take snapshots while the application runs; mount the page at the first request for no other route."""
    poller, loading, page = Poller(app.state.context), asyncio.Lock(), AsyncExitStack()
    inner, not_found = app.router.lifespan_context, app.router.default

    @asynccontextmanager
    async def lifespan(owner: FastAPI) -> AsyncIterator[Any]:
        async with inner(owner) as state, page:
            snapshots = asyncio.create_task(poller.run())
            try:
                yield state
            finally:
                snapshots.cancel()
                with suppress(asyncio.CancelledError):
                    await snapshots

    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        yield

    async def first(scope: Scope, receive: Receive, send: Send) -> None:
        async with loading:
            if app.router.default is first:
                poller.watched = True
                live = await asyncio.to_thread(import_module, f"{__package__}.live")
                app.router.lifespan_context = running  # the page adds what it starts with
                live.mount(app, poller)
                await page.enter_async_context(app.router.lifespan_context(app))
                app.router.default = not_found
        await app.router(scope, receive, send)

    app.router.lifespan_context, app.router.default = lifespan, first  # type: ignore[assignment]
