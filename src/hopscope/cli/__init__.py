"""The command line: one module per command, imported only when it is called.

A command's module, `cli/<name>.py` or `cli/<name>/command.py`, holds a function of the command's name or, if
it has subcommands, `Commands` named `app`.  `cli/application` joins them, `cli/options` declares the options
that commands share, `cli/output` prints, `cli/completion` answers shells that complete a line.  Heavy imports
are inside functions, so that `hopscope decode` and `hopscope --help` start in a fraction of a second.

Exit status: 0; 1 if something was found that should not be (see each command); 2 for errors in the usage
or the environment.
"""

from __future__ import annotations

import gc
import io
import os
import sys

_GARBAGE = 50_000
"""Objects after which Python looks for cycles: with 700, its own number, a collector starts 10 % slower."""


def main() -> None:
    """Entry point of `hopscope`."""
    from . import completion

    gc.set_threshold(_GARBAGE)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # an arrow or µ is `?` where the locale has none
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy's other threads spin for 0.05 s, without work

    if completion.VARIABLE in os.environ and completion.answer(os.environ):
        return
    from .application import run

    run()
