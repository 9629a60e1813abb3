"""A connection to the NATS servers of a cluster, with requests that several members answer."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Coroutine
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

from ..base.errors import HopscopeError
from ..base.extras import install_command
from ..base.process.loop_thread import LoopThread
from ..export.destination import DeliveryError, one_line
from ..export.nats_access import access_options
from ..settings.cluster import ClusterSettings
from .names import ClusterNames

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.js import JetStreamContext

T = TypeVar("T")
CONNECT_SECONDS = 3
RECONNECT_SECONDS = 1
"""Pause before a persistent connection's next attempt."""
ALIVE_SECONDS = 5
"""Interval of pings; after two without an answer, the connection ends."""
MESSAGE_BYTES = 1024
"""Overhead counted for each message: its headers, and the object that holds it."""
MEMBER = "hopscope-member"
"""Header of an answer: the member that sent it."""
MORE = "hopscope-more"
"""Header of a message: the member's answer continues in another message."""


class ClusterError(HopscopeError):
    """NATS does not answer, or refuses; the message names the servers and the reason."""


def require_client() -> None:
    """Raises ClusterError if nats-py is not installed."""
    if find_spec("nats") is None:
        raise ClusterError(f"cluster: a package is missing; install it with: {install_command('cluster')}")


def load_client() -> None:
    """Import nats-py, which takes a third of a second, before a deadline begins. Raises ClusterError."""
    require_client()
    import nats.aio.client
    import nats.js.client  # noqa: F401


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of one member."""

    member: str
    """The name that it claims."""
    headers: dict[str, str]
    body: bytes
    seconds: float
    """Time since the request."""


class Connection:
    """A connection; its client runs in a thread of its own. Methods raise ClusterError."""

    def __init__(self, settings: ClusterSettings, who: str, *, keep: bool = False) -> None:
        """`who`: a name that the server shows. `keep`: reconnect for ever, for long-running processes."""
        self.settings = settings
        self.names = ClusterNames(settings.name)
        self._who, self._keep = who, keep
        self._thread: LoopThread | None = None
        self._client: Client | None = None
        self.problem = ""
        """The last error of the connection; empty: none since it was made."""

    def __enter__(self) -> Connection:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def client(self) -> Client:
        """The client, to be used in the loop (`run`) only."""
        assert self._client is not None
        return self._client

    @property
    def jetstream(self) -> JetStreamContext:
        """Its JetStream, to be used in the loop only."""
        return self.client.jetstream(timeout=self.settings.answer_seconds + 3)

    @property
    def connected(self) -> bool:
        """Whether a server answers now."""
        return self._client is not None and bool(self._client.is_connected)

    @property
    def closed(self) -> bool:
        """Whether it has to be opened (again): it never was, or the client has given up."""
        return self._client is None or bool(self._client.is_closed)

    def open(self, seconds: float = CONNECT_SECONDS + 2) -> None:
        """Connect, within `seconds`. Raises ClusterError; it may be called again."""
        self.close()
        require_client()
        self._thread = LoopThread("nats")
        try:
            self.run(self._connect(), seconds)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close it, and end its thread."""
        thread, client, self._thread, self._client = self._thread, self._client, None, None
        if thread is None:
            return
        if client is not None:
            with suppress(Exception):  # the server may be gone
                thread.run(client.close(), 1.0)
        thread.close()

    def run(self, work: Coroutine[Any, Any, T], seconds: float | None = None) -> T:
        """Run in the loop. Raises ClusterError; TimeoutError becomes one, too."""
        import nats.errors

        if self._thread is None:
            work.close()
            raise ClusterError(f"NATS at {self.settings.place}: not connected")
        try:
            return self._thread.run(work, seconds)
        except (CancelledError, RuntimeError) as error:  # closed meanwhile, by another thread
            work.close()
            raise ClusterError(f"NATS at {self.settings.place}: the connection was closed") from error
        except DeliveryError as error:
            raise ClusterError(f"NATS at {self.settings.place}: {error}") from None
        except (TimeoutError, nats.errors.Error, OSError, ValueError) as error:
            text = "no answer" if isinstance(error, TimeoutError) else one_line(error)
            raise ClusterError(f"NATS at {self.settings.place}: {self.problem or text}") from error

    def ask(
        self,
        subject: str,
        body: bytes,
        seconds: float,
        expected: Collection[str],
        headers: dict[str, str] | None = None,
        most_bytes: int = 64 * 1024**2,
    ) -> list[Reply]:
        """Send a request to all subscribers of `subject`; returns the answers that arrive within `seconds`.

        It returns as soon as every member in `expected` has answered. All messages of a member are returned;
        the first without the header MORE completes its answer. At most `most_bytes` are kept per expected
        member, and the same for all other senders together.
        """
        work = self._ask(subject, body, seconds, set(expected), headers, most_bytes)
        return self.run(work, seconds + 5)

    def send(self, subject: str, body: bytes) -> None:
        """Send a message to all present subscribers of `subject`."""

        async def send() -> None:
            await self.client.publish(subject, body)
            await self.client.flush(CONNECT_SECONDS)

        self.run(send(), CONNECT_SECONDS + 1)

    def answer(self, subject: str, work: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
        """Call `work` with each request (a message of nats-py) to `subject`, in the loop."""

        async def subscribe() -> None:
            await self.client.subscribe(subject, cb=work)

        self.run(subscribe(), CONNECT_SECONDS)

    # ------------------------------------------------------------------------------------- in the loop

    async def _ask(
        self,
        subject: str,
        body: bytes,
        seconds: float,
        expected: set[str],
        headers: dict[str, str] | None,
        most_bytes: int,
    ) -> list[Reply]:
        client = self.client
        begin = time.monotonic()
        found: list[Reply] = []
        sizes: Counter[str] = Counter()
        asked = frozenset(expected)
        whole = asyncio.Event()

        async def take(message: Any) -> None:
            answered = dict(message.headers or {})
            member = answered.get(MEMBER)
            if member is None:
                return
            whose = member if member in asked else ""
            sizes[whose] += len(message.data) + MESSAGE_BYTES
            too_much = sizes[whose] > most_bytes
            if not too_much:
                found.append(Reply(member, answered, message.data, time.monotonic() - begin))
            if too_much or MORE not in answered:
                expected.discard(member)
            if not expected:
                whole.set()

        inbox = client.new_inbox()
        subscription = await client.subscribe(inbox, cb=take)
        try:
            await client.publish(subject, body, reply=inbox, headers=headers)
            if expected:
                with suppress(TimeoutError):
                    await asyncio.wait_for(whole.wait(), seconds)
            else:
                await asyncio.sleep(seconds)
        finally:
            with suppress(Exception):
                await subscription.unsubscribe()
        return found

    async def _connect(self) -> None:
        from nats.aio.client import Client

        settings = self.settings
        self.problem = ""
        options = access_options(settings, settings.nats)
        self._client = Client()
        await asyncio.wait_for(
            self._client.connect(
                list(settings.nats),
                name=f"hopscope {self._who}",
                allow_reconnect=self._keep,
                max_reconnect_attempts=-1 if self._keep else 1,
                reconnect_time_wait=RECONNECT_SECONDS if self._keep else 0,
                connect_timeout=CONNECT_SECONDS,
                ping_interval=ALIVE_SECONDS,
                max_outstanding_pings=2,
                pending_size=0 if self._keep else 2 * 1024**2,  # nothing is sent late
                error_cb=self._failed,
                reconnected_cb=self._back,
                **options,
            ),
            CONNECT_SECONDS,
        )

    async def _failed(self, error: Exception) -> None:
        """Note the error; read passwords and certificates again for the next attempt."""
        if not (self.problem and isinstance(error, ConnectionResetError)):  # a refusal ends with one
            self.problem = one_line(error)
        if self._client is not None and not self._client.is_connected:
            with suppress(DeliveryError):
                self._client.options.update(access_options(self.settings, self.settings.nats))

    async def _back(self) -> None:
        self.problem = ""
