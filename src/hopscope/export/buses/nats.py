"""NATS JetStream: every message is acknowledged by the stream before the next block is sent."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from ...base.process.loop_thread import LoopThread
from ...settings.destinations.buses import NatsSettings
from ..block import EventBlock
from ..destination import Context, DeliveryError, Destination, one_line
from ..nats_access import access_options
from .messages import Encoder, Message, safe

T = TypeVar("T")
WINDOW = 256
"""Maximum number of unacknowledged messages."""
ALIVE_SECONDS = 20
"""Interval of pings; after two without an answer, the connection ends."""


class Nats(Destination):
    """One server or cluster. The client's loop runs in a separate thread, which also answers pings."""

    Settings = NatsSettings
    settings: NatsSettings

    def __init__(self, settings: NatsSettings, context: Context) -> None:
        super().__init__(settings, context)
        self._encoder = Encoder(settings, context)
        self._member = safe(context.member).replace(".", "_")
        self._loop: LoopThread | None = None
        self._client: Any = None
        self._stream: Any = None
        self._problem = ""
        self._window = WINDOW if settings.messages == "events" else 1
        self._resumed: set[int] = set()
        self._pending: deque[asyncio.Future[Any]] = deque()

    def connect(self) -> None:
        """Connect to a server, and create the stream if it is missing and `create` is set."""
        self.close()
        self._resumed.clear()
        self._loop = LoopThread("nats")
        self._run(self._connect())

    def send(self, block: EventBlock) -> None:
        """Publish the messages of a block, and wait until the stream has them all."""
        limit = self._client.max_payload - 1024  # headers count
        messages = list(self._encoder.messages(block, limit))
        for message in messages:
            if len(message.body) > limit:
                raise DeliveryError(f"message of {len(message.body)} bytes, the server takes {limit}", False)
        settings = self.settings
        subject = f"{settings.prefix}{settings.branch}.{self._member}.{block.shard}"
        if self._window == 1 and block.shard not in self._resumed:
            messages = self._run(self._missing(subject, messages))
            self._resumed.add(block.shard)
        self._run(self._publish(subject, messages))
        self.context.count("bytes_total", sum(len(message.body) for message in messages))

    def close(self) -> None:
        """Close the connection, and end the thread."""
        loop, client, self._loop, self._client = self._loop, self._client, None, None
        if loop is None:
            return
        if client is not None:
            with contextlib.suppress(Exception):  # the server may be gone
                loop.run(client.close(), 1)
        loop.close()

    # ------------------------------------------------------------------------------------- in the loop

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run in the loop. Raises DeliveryError."""
        import nats.errors

        assert self._loop is not None
        try:
            return self._loop.run(work)
        except DeliveryError:
            raise
        except TimeoutError:
            problem = self._problem or f"no answer within {self.settings.timeout_seconds:g} s"
        except (nats.errors.Error, OSError, ValueError) as error:
            no_server = isinstance(error, nats.errors.NoServersError)
            problem = self._problem if no_server and self._problem else one_line(error)
        raise DeliveryError(problem) from None

    async def _connect(self) -> None:
        from nats.aio.client import Client
        from nats.js.api import StreamConfig
        from nats.js.errors import NotFoundError

        settings = self.settings
        self._problem = ""
        options = access_options(settings, settings.servers)
        self._client = Client()
        await asyncio.wait_for(
            self._client.connect(
                list(settings.servers),
                name=f"hopscope {self.context.member} {self.context.name}",
                allow_reconnect=False,  # the sender does it
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                ping_interval=ALIVE_SECONDS,
                error_cb=self._failed,
                closed_cb=self._closed,
                **options,
            ),
            settings.timeout_seconds,
        )
        self._stream = self._client.jetstream(
            timeout=settings.timeout_seconds, publish_async_max_pending=WINDOW + 1
        )
        if not settings.create:
            return
        try:
            await self._stream.stream_info(settings.stream)
        except NotFoundError:
            await self._stream.add_stream(
                StreamConfig(
                    name=settings.stream,
                    subjects=[f"{settings.prefix}.>"],
                    num_replicas=settings.replicas,
                    max_bytes=settings.stream_bytes or -1,
                    duplicate_window=settings.duplicate_seconds,
                )
            )

    async def _missing(self, subject: str, messages: list[Message]) -> list[Message]:
        """The messages that the stream lacks: those after its newest, since they were sent one by one.

        The stream itself recognises duplicates only for `duplicate_seconds`.
        """
        from nats.js.errors import NotFoundError

        try:
            newest = await self._stream.get_last_msg(self.settings.stream, subject)
        except NotFoundError:
            return messages
        ids = [message.id for message in messages]
        newest_id = (newest.headers or {}).get("Nats-Msg-Id")
        return messages[ids.index(newest_id) + 1 :] if newest_id in ids else messages

    async def _publish(self, subject: str, messages: Iterable[Message]) -> None:
        settings = self.settings
        self._pending.clear()
        for message in messages:
            if len(self._pending) >= self._window:
                await self._acknowledged(self._window // 2)
            headers = {
                "Nats-Msg-Id": message.id,
                "hopscope-key": message.key,
                "content-type": self._encoder.content_type,
            }
            self._pending.append(
                await self._stream.publish_async(
                    subject, message.body, settings.timeout_seconds, settings.stream, headers
                )
            )
        await self._acknowledged(0)

    async def _acknowledged(self, most: int) -> None:
        """Wait until at most `most` messages are unacknowledged."""
        while len(self._pending) > most:
            newest = self._pending[len(self._pending) - most - 1]
            await asyncio.wait_for(asyncio.shield(newest), self.settings.timeout_seconds)
            while self._pending and self._pending[0].done():
                self._pending.popleft().result()

    async def _failed(self, error: Exception) -> None:
        self._problem = one_line(error)

    async def _closed(self) -> None:
        """Fail all messages that wait for an acknowledgement."""
        for future in self._pending:
            if not future.done():
                future.set_exception(ConnectionResetError(self._problem or "the connection was closed"))
