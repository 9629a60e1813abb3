"""The command line: one module per command, imported only when it is called.

A command's module, `cli/<name>.py` or `cli/<name>/command.py`, holds a function of the command's name or, if
it has subcommands, `Commands` named `app`.  `cli/application` joins them, `cli/options` declares the options
that commands share, `cli/output` prints, `cli/completion` answers shells that complete a line.  Heavy imports
are inside functions, so that `hopscope decode` and `hopscope --help` start in a fraction of a second.

Exit status: 0; 1 if something was found that should not be (see each command); 2 for errors in the usage
or the environment.
"""

from __future__ import annotations

import os


def main() -> None:
    """Entry point of `hopscope`."""
    from . import completion

    if completion.VARIABLE in os.environ and completion.answer(os.environ):
        return
    from .application import run

    run()
