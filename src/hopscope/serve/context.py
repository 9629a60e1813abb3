"""The context of all routes: the collector's state, history, names, and threads for blocking work.

Health, metrics, state, scans, alarms, stores, pages of events, other history, live feeds and the page each
have threads of their own, so that none waits for another, and cheap work never waits for expensive work.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, cast

from fastapi import Depends, HTTPException, Request

from ..base.names import Names
from ..base.process import control_client as control
from ..cluster.queries.cluster_answer import ClusterHistory
from ..direct.collectors.group import CollectorGroup
from ..direct.collectors.open import open_collectors
from ..operators.acknowledgements import Acknowledgements
from ..operators.audit import Author
from ..operators.database import Database
from ..operators.queries import Queries
from ..operators.silences import Silences
from ..present.alarms import AlarmReader
from ..present.collector_state import CollectorState
from ..present.feed import Feed
from ..present.history import SharedHistory
from ..present.series.samples import Samples
from ..settings.custom_dialect import DialectSettings
from ..settings.serve import ServeSettings
from .access.access import Access
from .access.identity import identity_of
from .answer_cache import AnswerCache
from .live.answers import HUB, is_watched
from .models.common import Cluster, ClusterModel
from .scope import ClusterScope, asks_cluster

P = ParamSpec("P")
T = TypeVar("T")
Pool = Literal["history", "events"]

WAITING = 64
"""How many requests for state may wait for a thread; any further one is answered with 503."""
QUERIES = 2
"""How many queries of history run at a time."""
CLUSTER_QUERIES = 4
"""How many queries to all members of a cluster may wait for answers at a time."""
PATIENCE_SECONDS = 10.0
"""How long a request waits for a thread before it is answered with 503."""
RETRY_SECONDS = 5
"""Time after which a refused client should retry."""
MAX_QUERIES = 32
"""How many queries of history may run or wait."""
WATCHED = 16
"""How many of the hub's queries of each kind may wait for a thread, so that there is room for clients."""
STREAMS = 32
"""Maximum number of live feeds."""
PER_CLIENT = 8
"""Maximum number of queries, and of live feeds, per client address."""
_LOOK_SECONDS = 0.25
"""How often a query checks whether its client is still connected."""


class Context:
    """The context of one application."""

    def __init__(
        self,
        settings: ServeSettings,
        folder: Path,
        names: Names,
        stores: Path,
        collectors: CollectorGroup | Callable[[], CollectorGroup] | None = None,
        cluster: ClusterScope | None = None,
    ) -> None:
        self.settings = settings
        self.folder = folder
        self.stores = stores
        """Folder of the stores of direct telemetry access."""
        self.own_stores = open_collectors((), stores)
        """This collector's own stores."""
        self._collectors = collectors
        self.names = names
        self.state = CollectorState(folder)
        self.samples = Samples(self.state)
        """Newest values of the last minutes, as long as clients request them."""
        self.feed = Feed(folder / "regions")
        self.past = SharedHistory(folder, names)
        self.alarms = AlarmReader(self.state, self.feed, self.past)
        self.kept = AnswerCache()
        """Cached answers from history that viewers request again and again."""
        self.database = Database(folder)
        """The database of operators' decisions."""
        self.access = Access(settings, folder, self.database)
        self.acknowledgements = Acknowledgements(self.database, self.access.audit)
        self.silences = Silences(self.database, self.access.audit)
        self.saved_queries = Queries(self.database, self.access.audit)
        self._cluster = cluster
        self.dialects: Mapping[str, DialectSettings] = {}
        """Dialects of the configuration, by name, for reports that were kept as evidence."""
        self.closing = asyncio.Event()
        """Set when the server ends: live feeds and the overview's poller stop."""
        self._pools = {
            name: ThreadPoolExecutor(threads, thread_name_prefix=f"serve-{name}")
            for name, threads in (
                ("health", 1),
                ("metrics", 1),
                ("state", 2),
                ("scan", 1),
                ("alarms", 1),
                ("control", 2),
                ("stores", 2),
                ("collectors", 4),
                ("events", 1),
                ("history", QUERIES),
                ("cluster", CLUSTER_QUERIES),
                ("feed", 1),
                ("page", 1),
            )
        }
        self._waiting: Counter[str] = Counter()
        self._hub = {name: asyncio.Semaphore(WATCHED) for name in self._pools}
        self._shared: dict[object, asyncio.Future[Any]] = {}
        self.asking: Counter[str] = Counter()
        """Running and waiting queries of history, by client."""
        self._watching = {
            "events": asyncio.Semaphore(1),
            "history": asyncio.Semaphore(QUERIES),
            "cluster": asyncio.Semaphore(CLUSTER_QUERIES),
        }
        """The hub's queries wait here, and take no client's place among MAX_QUERIES."""
        self.streaming: Counter[str] = Counter()
        """Open live feeds, by client."""
        self._made: dict[object, Any] = {}
        self._keeping = threading.Lock()

    def made(self, kind: Callable[[Context], T]) -> T:
        """The object that a route keeps between requests, made with this context on first use."""
        with self._keeping:
            if kind not in self._made:
                self._made[kind] = kind(self)
            return self._made[kind]

    def _start(self, pool: str, work: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._pools[pool], work)

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run blocking work that is cheap whatever the size of the state; 503 if too many requests wait, or
        no thread becomes free in time.
        """
        return await self._run("state", partial(work, *args, **kwargs))

    async def scan(self, work: Callable[[], T]) -> T:
        """The same for work that reads all flows."""
        return await self._run("scan", work)

    async def of_alarms(self, work: Callable[[], T]) -> T:
        """The same for work that follows alarms."""
        return await self._run("alarms", work)

    def group(self, local: bool) -> CollectorGroup:
        """The collectors that share the keys; `local`: only this one. CollectorError: they are unknown."""
        if local or self._collectors is None:
            return self.own_stores
        return self._collectors() if callable(self._collectors) else self._collectors

    async def change(
        self,
        request: Request,
        message: dict[str, Any],
        kind: str,
        subject: str = "",
        *,
        before: Any = None,
        after: Any = None,
    ) -> dict[str, Any]:
        """Have the collector make a change on behalf of the client, and record it in the audit; returns the
        collector's answer. 400 if it is rejected, 503 if no collector answers; the audit also has changes
        that it may have made without an answer.
        """
        author = author_of(request)
        ask = partial(control.request, self.folder, message | {"by": str(author)[: control.MAX_BY]})
        return await self._of_collector(
            lambda: self.access.audit.ask(author, kind, subject, before, after, ask)
        )

    async def ask_collector(self, message: dict[str, Any]) -> dict[str, Any]:
        """The collector's answer to a query. 400 if it is rejected, 503 if no collector answers."""
        return await self._of_collector(partial(control.request, self.folder, message))

    async def _of_collector(self, ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        try:
            return await self._run("control", ask)
        except control.RejectedError as error:
            raise HTTPException(400, str(error)) from None
        except control.UnansweredError as error:
            raise HTTPException(503, f"{error}; it may still carry out the request") from None
        except control.ControlError as error:
            raise HTTPException(503, str(error)) from None

    async def look_up(self, local: bool, work: Callable[[CollectorGroup], T]) -> T:
        """Query stores; 503 if too many requests wait. Queries of other collectors have separate threads, so
        that two collectors that query each other cannot deadlock.
        """
        pool = "stores" if local or self._collectors is None else "collectors"
        return await self._run(pool, lambda: work(self.group(local)))

    async def _run(self, pool: str, work: Callable[[], T]) -> T:
        if is_watched.get():
            async with self._hub[pool]:
                return await self._take(pool, work)
        return await self._take(pool, work)

    async def _take(self, pool: str, work: Callable[[], T]) -> T:
        if self._waiting[pool] >= WAITING:
            raise _refused("too many requests at once: try again in a moment")
        self._waiting[pool] += 1
        begun = threading.Event()
        answer = self._start(pool, lambda: _begin(begun, work))
        try:
            if not is_watched.get():
                await asyncio.wait({answer}, timeout=PATIENCE_SECONDS)
                _reject_late(begun)
            return await answer
        finally:
            answer.cancel()
            self._waiting[pool] -= 1

    async def draw(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run blocking work of the page."""
        return await self._start("page", partial(work, *args, **kwargs))

    async def feed_frames(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run blocking work of a live feed."""
        return await self._start("feed", partial(work, *args, **kwargs))

    async def shared(
        self, pool: Literal["health", "metrics"], work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run work once for all requests that arrive meanwhile, and return its result; it never queues."""
        if work not in self._shared:
            future = self._shared[work] = self._start(pool, partial(work, *args, **kwargs))
            future.add_done_callback(lambda _: self._shared.pop(work))
        return await asyncio.shield(self._shared[work])

    @property
    def is_in_cluster(self) -> bool:
        """Whether this collector is in a cluster."""
        return self._cluster is not None

    @property
    def in_cluster(self) -> ClusterScope:
        """The cluster of this collector; 400 if there is none."""
        if self._cluster is None:
            raise HTTPException(400, "scope: this collector is in no cluster: set cluster.nats")
        return self._cluster

    async def ask_cluster(self, work: Callable[[], T]) -> T:
        """Ask all members; 503 if too many requests wait."""
        return await self._run("cluster", work)

    async def query(
        self, request: Request, work: Callable[[SharedHistory, threading.Event], T], pool: Pool = "history"
    ) -> T:
        """Run a query of history, a few at a time. `work` gets the history of this member, or of its cluster
        if the request says so, and an event that is set when the client has disconnected. Queries in the
        `pool` `events` read few parts of history, and do not wait for queries that read a whole time range.
        """
        client, of = client_of(request), "cluster" if asks_cluster(request) else pool
        if client == HUB:
            async with self._watching[of]:
                return await self._query(client, request, work, of)
        if self.asking.total() >= MAX_QUERIES or self.asking[client] >= PER_CLIENT:
            raise _refused("too many queries of history at once: try again when one of yours is answered")
        return await self._query(client, request, work, of)

    async def _query(
        self, client: str, request: Request, work: Callable[[SharedHistory, threading.Event], T], pool: str
    ) -> T:
        gone, begun, since = threading.Event(), threading.Event(), time.monotonic()
        asked = partial(work, self.past, gone)
        if pool == "cluster":
            asked = partial(_of_cluster, self.in_cluster.past(), work, gone)
        self.asking[client] += 1
        answer = self._start(pool, lambda: _begin(begun, asked))
        try:
            while not (await asyncio.wait({answer}, timeout=_LOOK_SECONDS))[0]:
                if await request.is_disconnected():
                    raise HTTPException(499, "the client is gone")
                if client != HUB and time.monotonic() - since > PATIENCE_SECONDS:
                    _reject_late(begun)
            return answer.result()
        finally:
            gone.set()
            answer.cancel()
            self.asking[client] -= 1

    def keeping(
        self, request: Request, seconds: float, make: Callable[[SharedHistory], T], *more: Hashable
    ) -> Callable[[SharedHistory, threading.Event], T]:
        """Work for a query to history that many viewers ask again and again: it is done once for all of
        them, and its result is cached as in `AnswerCache.of`. `more`: everything beside the request that the
        answer depends on.
        """
        query = (request.url.path, tuple(sorted(request.query_params.multi_items())), *more)

        def work(past: SharedHistory, _: threading.Event) -> T:
            if asks_cluster(request):  # its answer also says who answered
                return make(past)
            return self.kept.of(query, seconds, lambda: make(past))

        return work

    def reject_further_stream(self, client: str) -> None:
        """503 if there are too many live feeds, of all clients or of this one."""
        if self.streaming.total() >= STREAMS or self.streaming[client] >= PER_CLIENT:
            raise _refused("too many live feeds at once: close one first")

    def node(self, text: str) -> int:
        """The id of a switch given by id or name; 400 if the name is unknown."""
        found = self.names.find_node(text)
        if found is None:
            raise HTTPException(
                400, f"node: expected a node id or a name of the names file, found {text[:60]!r}"
            )
        return found

    def close(self) -> None:
        """Release the threads, and end the feeds and pollers that use them."""
        self.closing.set()
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)
        self.samples.close()
        self.past.close()
        self.access.close()
        self.database.close()
        if self._cluster is not None:
            self._cluster.close()


def _begin(begun: threading.Event, work: Callable[[], T]) -> T:
    """Do work, after noting that a thread was free for it."""
    begun.set()
    return work()


def _reject_late(begun: threading.Event) -> None:
    """Raise 503 if no thread has begun the work by now."""
    if not begun.is_set():
        raise _refused("the collector is busy: other queries of this kind are still being answered")


def _refused(why: str) -> HTTPException:
    return HTTPException(503, why, {"Retry-After": str(RETRY_SECONDS)})


def _of_cluster(
    past: SharedHistory, work: Callable[[SharedHistory, threading.Event], T], gone: threading.Event
) -> T:
    """An answer from all members, with the members that answered."""
    try:
        found = work(past, gone)
        history = cast(ClusterHistory, past.history())
        cast(ClusterModel, found).cluster = Cluster(**history.answer.as_json())
        return found
    finally:
        past.close()


def author_of(request: Request) -> Author:
    """The author of a change, for the audit."""
    return identity_of(request.scope).author


def client_of(request: Request) -> str:
    """Address of the client of a request, even behind trusted proxies."""
    return identity_of(request.scope).address


def of(request: Request) -> Context:
    """The context of the application that got a request."""
    return request.app.state.context


Ctx = Annotated[Context, Depends(of)]
