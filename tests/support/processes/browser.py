"""A headless Chromium, driven over its debugging protocol: pages, clicks, keys, pictures."""

from __future__ import annotations

import base64
import itertools
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
from websockets.sync.client import connect

from support.waiting import HANG_SECONDS

_OPTIONS = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --hide-scrollbars "
    "--disable-dev-shm-usage --disable-component-update --disable-sync --window-size=1440,900 "
    "--remote-debugging-port=0 about:blank"
)
_KEYS = {"Enter": "\r", "Space": " "} | dict.fromkeys(
    ("Tab", "Escape", "ArrowDown", "ArrowUp", "ArrowLeft", "ArrowRight"), ""
)
"""What keys type."""
_VISIBLE = """(selector, text) => {
  const shown = (e) => e.getClientRects().length && getComputedStyle(e).visibility !== "hidden";
  const found = [...document.querySelectorAll(selector)].filter(shown);
  return text ? found.find((e) => e.innerText.trim().includes(text)) : found[0];
}"""


class Browser:
    """One page. `problems` has what it complained of: exceptions, errors in its log."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self.problems: list[str] = []
        for domain in ("Runtime", "Log", "Page"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        """One command and its result; what the page complains of meanwhile is kept in `problems`."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(timeout=300))
            if message.get("id") == number:
                return message.get("result", message)
            if message.get("method") == "Runtime.exceptionThrown":
                self.problems.append(json.dumps(message["params"])[:300])
            entry = message.get("params", {}).get("entry", {})
            if message.get("method") == "Log.entryAdded" and entry.get("level") == "error":
                self.problems.append(f"{entry.get('text')} {entry.get('url')}")

    def run(self, script: str) -> Any:
        """Value of a JavaScript expression in the page; a promise is awaited."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        return found.get("result", {}).get("value")

    def wait(self, script: str, seconds: float = HANG_SECONDS) -> Any:
        """The expression's first true value; fails with the page's text if it does not come."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if value := self.run(script):
                return value
            time.sleep(0.1)
        pytest.fail(
            f"{script} never was true; the page: {self.run('document.body.innerText')}; {self.problems}"
        )

    def open(self, url: str) -> None:
        """Load a page, and wait until its document is there."""
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def see(self, selector: str, text: str = "", seconds: float = HANG_SECONDS) -> str:
        """Wait for a visible element, with this text if there is one; returns its text."""
        element = f"({_VISIBLE})({json.dumps(selector)}, {json.dumps(text)})"
        return str(self.wait(f"((e) => e && [e.innerText ?? ''])({element})", seconds)[0])

    def rows(self, label: str) -> list[list[str]]:
        """Texts of the cells of a table."""
        return self.run(
            f"[...document.querySelectorAll('[aria-label={json.dumps(label)}] tbody tr')]"
            ".map((row) => [...row.children].map((cell) => cell.innerText.trim()))"
        )

    def cut(self) -> list[str]:
        """Labels of tables that are wider than their place; answers of Ask have any number of columns."""
        return self.run(
            "[...document.querySelectorAll('.table-wrap:not(.answer-wrap)')]"
            ".filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.ariaLabel)"
        )

    def click(self, selector: str, text: str = "") -> None:
        """Click a visible element with the mouse, as a person does, once it is there and stands still; once
        more if it moved away just then, as when a banner appears above it, unless another such element took
        its place: rows of a table move down while it is live.
        """
        place = f"""(async () => {{
          const e = ({_VISIBLE})({json.dumps(selector)}, {json.dumps(text)});
          if (!e) return null;
          e.scrollIntoView({{block: "center"}});
          const at = () => {{
            const box = e.getClientRects()[0];
            return box && [box.x + Math.min(box.width / 2, 40), box.y + box.height / 2];
          }};
          const before = at();
          await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
          const now = at();
          if (!now || String(now) !== String(before)) return null;
          const holds = (there) => there && (e.contains(there) || there.contains(e));
          const there = document.elementFromPoint(...now);
          if (!holds(there)) return null;
          window.missed = true;  // if it moves meanwhile, the click is one of what holds the two
          const text = {json.dumps(text)};
          const such = (target) => {{
            const other = target.closest({json.dumps(selector)});
            return other && (other.innerText ?? "").includes(text);
          }};
          const look = ({{target}}) => {{
            window.missed = target !== there && !e.contains(target) && !such(target);
          }};
          addEventListener("click", look, {{capture: true, once: true}});
          return now;
        }})()"""
        while True:
            x, y = self.wait(place)
            self.click_at(x, y)
            if not self.run("window.missed"):  # a new page has no such variable
                return

    def click_at(self, x: float, y: float) -> None:
        """Click at a place of the window."""
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            more = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def press(self, *keys: str) -> None:
        """Press keys one after the other: `Tab`, `Enter`, `a`, `?`, …"""
        for key in keys:
            text = _KEYS.get(key, key)
            name = " " if key == "Space" else key
            code = {"Enter": 13, "Tab": 9, "Escape": 27, "Space": 32}.get(key, 0)
            for kind in ("keyDown", "keyUp"):
                self.call(
                    "Input.dispatchKeyEvent", type=kind, key=name, code=key, windowsVirtualKeyCode=code,
                    **({"text": text} if text and kind == "keyDown" else {}),
                )  # fmt: skip

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        self.call("Input.insertText", text=text)

    def size(self, width: int, height: int, *, phone: bool = False) -> None:
        """Size of the window in CSS pixels; a phone has fingers and a sharper screen."""
        ratio = 2 if phone else 1
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=ratio,
            mobile=phone,
        )  # fmt: skip

    def scheme(self, name: str) -> None:
        """`light` or `dark`, as the system says."""
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def picture(self, file: Path) -> None:
        """Write what is seen into a PNG file."""
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))


PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""Names of it; the first one opens no windows."""


class Chromium:
    """A browser process."""

    def __init__(self, program: str, profile: Path) -> None:
        command = [program, f"--user-data-dir={profile}", *_OPTIONS.split()]
        self._process = subprocess.Popen(  # a group of its own: Debian's program is a script that starts it
            command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True
        )
        said, until = profile / "DevToolsActivePort", time.monotonic() + HANG_SECONDS
        while not (said.exists() and "\n" in said.read_text()):
            if time.monotonic() > until or self._process.poll() is not None:
                pytest.fail("Chromium did not start")
            time.sleep(0.05)
        port, path = said.read_text().split()[:2]
        self._port = port
        self._stack = ExitStack()
        self._browser = self._stack.enter_context(connect(f"ws://127.0.0.1:{port}{path}", max_size=None))
        self._numbers = itertools.count(1)

    def _call(self, method: str, **parameters: Any) -> Any:
        number = next(self._numbers)
        self._browser.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while (message := json.loads(self._browser.recv(timeout=60))).get("id") != number:
            pass
        return message["result"]

    @contextmanager
    def page(self) -> Iterator[Browser]:
        """A page in a context of its own: no cookies, storage or cache of others."""
        context = self._call("Target.createBrowserContext")["browserContextId"]
        target = self._call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        address = f"ws://127.0.0.1:{self._port}/devtools/page/{target}"
        try:
            with connect(address, max_size=None) as socket:
                yield Browser(socket)
        finally:
            self._call("Target.disposeBrowserContext", browserContextId=context)

    def __enter__(self) -> Chromium:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
        os.killpg(self._process.pid, signal.SIGTERM)
        self._process.wait(HANG_SECONDS)
