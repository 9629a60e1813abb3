"""Run the commands of the guides, and compare or rewrite their output.

A fenced block of `console` after a line `<!-- run -->` is executed: each line that begins with `$` (and goes
on after a backslash) by bash, in a folder of the page with the sample captures. What follows must be what the
command prints, to either stream. A block after `<!-- file: NAME -->` is a file in that folder.
`python docs/transcripts.py [PAGE]` rewrites the output; tests/test_docs.py compares it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hopscope
from hopscope.library.samples import SAMPLES

PAGES = sorted(Path(__file__).parent.rglob("*.md"))
BLOCK = re.compile(r"(?<=<!-- run -->\n```console\n).*?(?=^```)", re.S | re.M)
FILE = re.compile(r"<!-- file: (\S+) -->\n```\w+\n(.*?)^```", re.S | re.M)
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n", re.M)
CHANGING = re.compile(r"(?:took +|in )[\d.]+ s\b")
"""Durations: they differ from run to run."""
COMPILING = "hopscope: compil"
"""A command that is the first to need a kernel says so; the next one does not."""
SECONDS = 900


def run(page: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Every block that is to be run, and what it is after running its commands, in order, in this folder."""
    for name in SAMPLES:
        (folder / name).write_bytes(hopscope.sample(name).read_bytes())
    programs = folder / ".bin"
    programs.mkdir()
    script = programs / "hopscope"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m hopscope "$@"\n')
    script.chmod(0o755)
    environment = {
        **os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "COLUMNS": "200", "NO_COLOR": "1",
        "XDG_DATA_HOME": str(folder / ".data"), "XDG_CONFIG_HOME": str(folder / ".config"),
    }  # fmt: skip
    for name, text in FILE.findall(page):
        (folder / name).write_text(text)
    for block in BLOCK.findall(page):
        parts = []
        for command in COMMAND.findall(block):
            done = subprocess.run(
                ["bash", "-c", command], cwd=folder, env=environment, text=True, check=False,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=SECONDS,
            )  # fmt: skip
            if done.returncode:
                raise RuntimeError(f"{command}: {done.stdout or done.returncode}")
            lines = done.stdout.splitlines(keepends=True)
            kept = [line for line in lines if not line.startswith(COMPILING)]
            parts.append(f"$ {command}\n{''.join(kept)}")
        yield block, "".join(parts)


def same(written: str, printed: str) -> bool:
    """Whether both are equal but for what differs from run to run."""
    return CHANGING.sub("N", written) == CHANGING.sub("N", printed)


def main() -> int:
    """Rewrite what has changed."""
    for path in [Path(name).resolve() for name in sys.argv[1:]] or PAGES:
        page = path.read_text()
        if not BLOCK.search(page):
            continue
        with tempfile.TemporaryDirectory() as folder:
            found = list(run(page, Path(folder)))
        for block, printed in found:
            if not same(block, printed):
                print(f"{path.name}: changed")
                page = page.replace(
                    f"<!-- run -->\n```console\n{block}", f"<!-- run -->\n```console\n{printed}"
                )
        path.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
