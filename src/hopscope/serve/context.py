"""What every route works with: the collector's state, history, names, and a small pool for what blocks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Annotated, ParamSpec, TypeVar

from fastapi import Depends, HTTPException, Request

from ..base.names import Names
from ..present.collector_state import CollectorState
from ..present.feed import Feed
from ..present.history import Past
from ..settings.collector import ServeSettings

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 3
WAITING = 64
"""Requests that may wait for a thread; one more is answered with 503."""
QUERIES = 2
"""Queries of history that run at a time."""


class Context:
    """One per app."""

    def __init__(self, settings: ServeSettings, folder: Path, names: Names, stores: Path) -> None:
        self.settings = settings
        self.folder = folder
        self.stores = stores
        """Folder of the stores of direct telemetry access."""
        self.names = names
        self.state = CollectorState(folder)
        self.feed = Feed(folder / "regions")
        self.past = Past(folder, names)
        self.closing = asyncio.Event()
        """Set when the server ends: live feeds stop."""
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="serve")
        self._waiting = 0
        self._queries = asyncio.Semaphore(QUERIES)

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do blocking work in the pool; 503 where too many wait."""
        if self._waiting >= WAITING:
            raise HTTPException(503, "too many requests at once: try again in a moment")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._pool, partial(work, *args, **kwargs)
            )
        finally:
            self._waiting -= 1

    async def query(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a query of history in the pool; a few at a time, so that requests of state do not wait."""
        if self._waiting >= WAITING:
            raise HTTPException(503, "too many requests at once: try again in a moment")
        self._waiting += 1
        try:
            async with self._queries:
                return await asyncio.get_running_loop().run_in_executor(
                    self._pool, partial(work, *args, **kwargs)
                )
        finally:
            self._waiting -= 1

    def node(self, text: str) -> int:
        """Id of a switch named by id or name; 400 if there is none."""
        found = self.names.find_node(text)
        if found is None:
            raise HTTPException(
                400, f"node: expected a node id or a name of the names file, found {text[:60]!r}"
            )
        return found

    def close(self) -> None:
        """Let the pool's threads go."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self.past.close()


def of(request: Request) -> Context:
    """The context of the app that a request came to."""
    context: Context = request.app.state.context
    return context


Ctx = Annotated[Context, Depends(of)]
