"""An asyncio event loop in a thread, for using asynchronous clients in code that is not asynchronous."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def _concerns(record: logging.LogRecord) -> bool:
    """Whether to log a message of asyncio: not the one about the end of a connection that its client has
    upgraded to TLS, as the client of NATS does.
    """
    return "eof_received" not in str(record.msg)


logging.getLogger("asyncio").addFilter(_concerns)


class LoopThread:
    """An event loop that runs from construction until `close`."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], seconds: float | None = None) -> T:
        """Run a coroutine in the loop, and wait for its result; TimeoutError after `seconds`."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result(seconds)
        except TimeoutError:
            future.cancel()
            raise

    def close(self) -> None:
        """Cancel the tasks that still run, and end the thread."""
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
        await asyncio.sleep(0)  # transports close their sockets in the next turn of the loop
