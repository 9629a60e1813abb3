"""The command line without a process of its own, with the same output and status."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from subprocess import CompletedProcess
from unittest.mock import patch

from hopscope.base import kernel_cache
from hopscope.cli import main


def hopscope(*words: object, stdin: str = "") -> CompletedProcess[str]:
    """What `hopscope WORDS` prints, and its exit status."""
    arguments = ["hopscope", *map(str, words)]
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    source = io.TextIOWrapper(io.BytesIO(stdin.encode()), "utf-8")
    status: object = 0
    with (
        patch.object(sys, "argv", arguments),
        patch.object(sys, "stdin", source),
        patch.object(kernel_cache, "notices", []),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            status = end.code or 0
    texts = [stream.buffer.getvalue().decode().replace("\r\n", "\n") for stream in (out, err)]
    return CompletedProcess(arguments, status if isinstance(status, int) else 1, *texts)
