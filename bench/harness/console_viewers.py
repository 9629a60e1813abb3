"""Viewers of the console without a browser: each watches what a page watches, and counts what it gets.

`python -m harness.console_viewers URL COUNT`: until its standard input ends; then a line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter

from websockets.asyncio.client import connect

_EVERY = ("/readyz", "/api/v0/summary")
PAGES = (
    ("/api/v0/overview", "/api/v0/alarms?limit=50"),
    ("/api/v0/flows?limit=100",),
    ("/api/v0/fabric",),
    ("/api/v0/flows/groups?by=src_prefix&limit=100",),
)
"""What the pages overview, fabric and flows (twice) watch, beside what every page does."""


class Viewer:
    """Counts of one viewer."""

    def __init__(self, number: int) -> None:
        self.paths = (*_EVERY, *PAGES[number % len(PAGES)])
        self.bytes = 0
        self.updates: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.start = 0.0

    async def follow(self, url: str, over: asyncio.Event) -> None:
        """Watch until it is over."""
        address = url.replace("http", "ws", 1).rstrip("/") + "/api/v0/live"
        async with connect(address, max_size=None, origin=url.rstrip("/")) as socket:  # type: ignore[arg-type]
            await socket.send(json.dumps({"watch": self.paths}))
            self.start = time.monotonic()
            ending = asyncio.create_task(over.wait())
            while not over.is_set():
                message = asyncio.create_task(socket.recv())
                await asyncio.wait({message, ending}, return_when=asyncio.FIRST_COMPLETED)
                if not message.done():
                    message.cancel()
                    break
                text = message.result()
                self.bytes += len(text)
                found = json.loads(text)
                if "path" in found:
                    self.updates[found["path"]] += 1
                    if found["status"] != 200 and found["path"] != "/readyz":
                        self.refused[found["path"]] += 1

    def figures(self) -> dict[str, object]:
        """Bytes per second, updates per second by path, and refusals."""
        seconds = time.monotonic() - self.start
        return {
            "bytes": self.bytes / seconds,
            "updates": {path: count / seconds for path, count in self.updates.items()},
            "refused": dict(self.refused),
        }


async def main(url: str, count: int) -> None:
    """Let all of them watch."""
    over = asyncio.Event()
    viewers = [Viewer(number) for number in range(count)]
    tasks = [asyncio.create_task(viewer.follow(url, over)) for viewer in viewers]
    await asyncio.to_thread(sys.stdin.read)
    figures = [viewer.figures() for viewer in viewers]
    over.set()
    await asyncio.gather(*tasks)
    print(json.dumps(figures))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
