"""Keys of a terminal, read without waiting for Enter."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty

ESCAPE, ENTER, BACKSPACE = "\x1b", "\n", "\x7f"


class Keys:
    """Keys that are pressed while this is open; none unless standard input is a terminal."""

    def __init__(self) -> None:
        self._terminal = sys.stdin.fileno() if sys.stdin and sys.stdin.isatty() else -1

    def __enter__(self) -> Keys:
        if self._terminal >= 0:
            self._before = termios.tcgetattr(self._terminal)
            tty.setcbreak(self._terminal)
        return self

    def __exit__(self, *_: object) -> None:
        if self._terminal >= 0:
            termios.tcsetattr(self._terminal, termios.TCSADRAIN, self._before)

    def wait(self, seconds: float) -> str:
        """Wait up to this time for input, and return the keys typed; empty: none."""
        if self._terminal < 0:
            time.sleep(seconds)
            return ""
        if not select.select([self._terminal], [], [], seconds)[0]:
            return ""
        return os.read(self._terminal, 64).decode("utf-8", "replace").replace("\r", ENTER)
