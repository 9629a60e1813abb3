"""A loop of asyncio in a thread of its own, for clients that are asynchronous, in code that is not."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def _concerns(record: logging.LogRecord) -> bool:
    """Not what asyncio says when a connection over TLS ends whose client has upgraded it, as that of NATS."""
    return "eof_received" not in str(record.msg)


logging.getLogger("asyncio").addFilter(_concerns)


class LoopThread:
    """A loop that runs from construction until `close`."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], seconds: float | None = None) -> T:
        """Run in the loop, and wait for the result; TimeoutError after `seconds`."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result(seconds)
        except TimeoutError:
            future.cancel()
            raise

    def close(self) -> None:
        """Cancel what still runs, and end the thread."""
        if self.loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(self._end(), self.loop).result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(0)  # transports close their sockets in the next turn
