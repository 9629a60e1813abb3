"""What is announced while kernels are compiled."""

from __future__ import annotations

import subprocess
import sys

from hopscope.runtime.warmup import _follow


def notes_of(*lines: str) -> list[str]:
    """What is announced of a process that prints these lines."""
    words = [sys.executable, "-c", f"print({chr(10).join(lines)!r})"]
    notes: list[str] = []
    with subprocess.Popen(words, stdout=subprocess.PIPE) as child:
        _follow([child], ["xdp", "files"], notes.append, 1000)
    return notes


def test_only_what_is_compiled_is_announced() -> None:
    """The first kernel is announced, and how many there were; nothing if all were in the cache."""
    assert notes_of("done xdp", "done files") == []
    assert notes_of("walk", "done xdp", "read", "done files") == [
        "compiling the kernels, once for this version and processor: xdp, files",
        "compiled 2 kernels",
    ]
