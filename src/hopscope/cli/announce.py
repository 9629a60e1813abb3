"""Progress of compilation on stderr: one line that changes on a terminal, otherwise a line at a time."""

from __future__ import annotations

import sys
import time

_shown = 0
_kernels = 0
_begun = 0.0


def show(line: str) -> None:
    """Show progress in place of what was shown before; an empty line removes it."""
    global _shown
    if not sys.stderr.isatty():
        if line:
            print(f"hopscope: {line}", file=sys.stderr)
        return
    print("\r" + line[:78].ljust(_shown), end="" if line else "\r", file=sys.stderr, flush=True)
    _shown = len(line[:78])


def compile_parts(*parts: str) -> None:
    """Compile what is missing of some parts of `runtime.warmup`, in processes side by side."""
    from ..runtime.warmup import compile_steps, steps_of

    compile_steps(steps_of(parts), show, every=0.2 if sys.stderr.isatty() else 5)
    show("")


def kernel(name: str) -> None:
    """A notice of `kernel_cache`: this process compiles `name`; with "", what it called is ready."""
    global _kernels, _begun
    if not name:
        if sys.stderr.isatty():
            show("")
        return
    _kernels += 1
    if _kernels == 1:
        _begun = time.monotonic()
        if not sys.stderr.isatty():
            show("compiling the kernels, once for this version and processor (see `hopscope warmup`)")
    if sys.stderr.isatty() and time.monotonic() - _begun > 0.3:
        show(f"compiling the kernels, once for this version and processor: {_kernels}, {name}")
