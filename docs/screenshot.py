"""Take docs/images/live-page.png: the live page of `hopscope demo` while a microburst fills a queue.

`python docs/screenshot.py [FILE] [WIDTHxHEIGHT] [light|dark]` needs Chromium. It takes about a minute.
"""

from __future__ import annotations

import base64
import itertools
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from websockets.sync.client import ClientConnection, connect

IMAGE = Path(__file__).parent / "images" / "live-page.png"
SECONDS = 60.0
BURST = "document.querySelector('.strip .row.bad') && document.querySelectorAll('.event').length > 5"
"""True once the page shows a queue in alarm."""
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


class Page:
    """A page in a browser, by the Chrome DevTools Protocol."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)

    def call(self, method: str, **parameters: Any) -> Any:
        """Call a method; returns its result."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(timeout=60))
            if message.get("id") == number:
                return message.get("result", message)

    def wait(self, expression: str, seconds: float) -> None:
        """Wait until a JavaScript expression is true."""
        until = time.monotonic() + seconds
        while not self.call("Runtime.evaluate", expression=expression)["result"].get("value"):
            if time.monotonic() > until:
                sys.exit(f"not true after {seconds:g} s: {expression}")
            time.sleep(0.2)


@contextmanager
def browser(width: int, height: int, scheme: str) -> Iterator[Page]:
    """A browser with a window of this size that prefers a colour scheme."""
    program = next(found for name in CHROMIUM if (found := shutil.which(name)))
    with tempfile.TemporaryDirectory() as profile:
        options = (
            "--headless --no-sandbox --disable-gpu --no-first-run --hide-scrollbars --disable-dev-shm-usage "
            f"--window-size={width},{height} --remote-debugging-port=0 --user-data-dir={profile} about:blank"
        )
        with subprocess.Popen([program, *options.split()], stderr=subprocess.DEVNULL) as process:
            port = Path(profile, "DevToolsActivePort")
            while not port.exists() or "\n" not in port.read_text():
                time.sleep(0.1)
            targets = httpx.get(
                f"http://127.0.0.1:{port.read_text().split()[0]}/json", trust_env=False
            ).json()
            address = next(page["webSocketDebuggerUrl"] for page in targets if page["type"] == "page")
            with connect(address, max_size=None) as socket:
                page = Page(socket)
                size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
                page.call("Emulation.setDeviceMetricsOverride", **size)
                features = [{"name": "prefers-color-scheme", "value": scheme}]
                page.call("Emulation.setEmulatedMedia", features=features)
                yield page
            process.terminate()
            process.wait(10)


def main(image: Path = IMAGE, size: str = "1440x900", scheme: str = "light") -> None:
    """Run the demo, open its page, wait for the burst, take the picture."""
    width, height = map(int, size.split("x"))
    command = [sys.executable, "-m", "hopscope", "demo", "--duration", str(SECONDS), "--seed", "3"]
    with (
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as demo,
        browser(width, height, scheme) as page,
    ):
        assert demo.stderr is not None
        url = next(line.split()[-1] for line in demo.stderr if "live page" in line)
        page.call("Page.navigate", url=url)
        page.wait(BURST, SECONDS)
        time.sleep(2)
        answer = page.call("Page.captureScreenshot", format="png")
        Path(image).write_bytes(base64.b64decode(answer["data"]))
        demo.terminate()
        demo.wait(60)


if __name__ == "__main__":
    main(*sys.argv[1:])  # type: ignore[arg-type]
