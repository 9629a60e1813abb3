"""The command line without a process of its own, with the same output and status."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from subprocess import CompletedProcess
from unittest.mock import patch

import pytest

from hopscope.base.kernels import kernel_cache
from hopscope.cli import main

Run = Callable[..., tuple[int, str, str]]
"""Exit status, output and errors of a command."""


def hopscope(*words: object, stdin: bytes = b"") -> CompletedProcess[str]:
    """What `hopscope WORDS` prints, and its exit status."""
    arguments = ["hopscope", *map(str, words)]
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    source = io.TextIOWrapper(io.BytesIO(stdin), "utf-8")
    with (
        patch.object(sys, "argv", arguments),
        patch.object(sys, "stdin", source),
        patch.object(kernel_cache, "notices", []),
        redirect_stdout(out),
        redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    texts = [stream.buffer.getvalue().decode().replace("\r\n", "\n") for stream in (out, err)]
    status = ended.value.code or 0
    return CompletedProcess(arguments, status if isinstance(status, int) else 1, *texts)


def run(*words: object) -> tuple[int, str, str]:
    """`hopscope WORDS`, as a `Run`."""
    done = hopscope(*words)
    return done.returncode, done.stdout, done.stderr
