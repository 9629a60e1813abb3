"""The command line: one module per command, imported only when it is called.

A command's module, `cli/<name>.py` or `cli/<name>/command.py`, holds a function of the command's name or, if
it has subcommands, `Commands` named `app`. `cli/application` joins them, `cli/options` declares the options
that commands share, `cli/output` prints, `cli/completion` answers shells that complete a line. Heavy imports
are inside functions, so that `hopscope decode` and `hopscope --help` start in a fraction of a second.

Exit status: 0; 1 if something was found that should not be (see each command); 2 for errors in the usage
or the environment.
"""

from __future__ import annotations

import gc
import io
import os
import signal
import sys
from pathlib import Path
from typing import Any

_GARBAGE = 50_000
"""Number of new objects after which Python looks for cycles; its default, 700, slows a start by 10 %."""


class _Lossy(io.FileIO):
    """A file that never raises errors: text that cannot be written, for example to a full disk, is lost."""

    def write(self, text: Any, /) -> int:
        try:
            return super().write(text)
        except OSError:
            return len(text)


def main() -> None:
    """Entry point of `hopscope`."""
    _prepare_streams()
    interrupted = signal.getsignal(signal.SIGINT)
    if interrupted is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C during imports ends them without a traceback
    from . import completion

    gc.set_threshold(_GARBAGE)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # an arrow or µ is `?` where the locale has none
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy's other threads spin for 0.05 s, without work

    if completion.VARIABLE in os.environ and completion.answer(os.environ):
        return
    from .application import run

    if interrupted is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupted)
    run()


def _prepare_streams() -> None:
    """Discard output to a stream that the caller has closed (`>&-`), for which Python has None. Output to
    stderr never ends a command.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
    if (stream := sys.__stderr__) is not None and sys.stderr is stream:
        lossy = io.BufferedWriter(_Lossy(stream.fileno(), "w", closefd=False))
        sys.stderr = io.TextIOWrapper(lossy, stream.encoding, stream.errors, line_buffering=True)
