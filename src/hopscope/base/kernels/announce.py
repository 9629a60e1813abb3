"""Announces compilation, which can take a minute, so that no command and no call of the library seems to
hang.

On a terminal and in a notebook, one line on stderr is updated, and then removed. Elsewhere, a command prints
lines, and the library logs them (logger `hopscope`, level INFO).
"""

from __future__ import annotations

import logging
import sys
import time
from typing import Any

from . import kernel_cache

INTERVAL_SECONDS = 0.2, 5.0
"""Interval between updates: of a line that is replaced, and of separate lines."""
_DELAY_SECONDS = 0.3
"""On a line that is replaced, compilation is announced only if it takes longer."""
_WIDTH = 78
_COMPILING = "compiling the kernels, once for this version and processor"


def changes_line() -> bool:
    """Whether stderr is a terminal or the cell of a notebook, in which a line can be replaced."""
    if sys.stderr.isatty():
        return True
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def interval() -> float:
    """Seconds between two updates."""
    return INTERVAL_SECONDS[0] if changes_line() else INTERVAL_SECONDS[1]


class Announcer:
    """Announces the kernels that this process compiles. `log`: use the logger if
    stderr cannot replace lines.
    """

    def __init__(self, *, log: bool = False) -> None:
        self._log = log
        self._shown = self._kernels = 0
        self._began = 0.0

    def show(self, line: str) -> None:
        """Show progress in place of the previous line; an empty line removes it."""
        if changes_line():
            line = line[:_WIDTH]
            print("\r" + line.ljust(self._shown), end="" if line else "\r", file=sys.stderr, flush=True)
            self._shown = len(line)
        elif line and self._log:
            logging.getLogger("hopscope").info(line)
        elif line:
            print(f"hopscope: {line}", file=sys.stderr)

    def kernel(self, name: str) -> None:
        """Handle a notice of `kernel_cache`: this process compiles the kernel `name`, or with "" is ready."""
        if not name:
            if self._shown:
                self.show("")
            return
        self._kernels += 1
        if self._kernels == 1:
            self._began = time.monotonic()
            if not changes_line():
                self.show(f"{_COMPILING} (see `hopscope warmup`)")
        if changes_line() and time.monotonic() - self._began > _DELAY_SECONDS:
            self.show(f"{_COMPILING}: {self._kernels}, {name}")


_announcer = Announcer()


def show(line: str) -> None:
    """Show progress of this process; an empty line removes it."""
    _announcer.show(line)


def enable(*, log: bool = False) -> None:
    """Announce the kernels that this process compiles; `log`: as the library does."""
    global _announcer
    disable()
    _announcer = Announcer(log=log)
    kernel_cache.notices.append(_announcer.kernel)


def disable() -> None:
    """Stop announcing."""
    if _announcer.kernel in kernel_cache.notices:
        kernel_cache.notices.remove(_announcer.kernel)
