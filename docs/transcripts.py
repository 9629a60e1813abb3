"""Run the commands of the guides, and compare or rewrite their output.

A fenced block of `console` after one of these lines is executed: each line that begins with `$` (and goes on
after a backslash) by bash, in a folder of the page with the sample captures, in a network namespace with
nothing but a loopback interface. Fabrics and namespaces of that name outside are not seen, so that several
runs do not meet. `sudo` is what it is for root: nothing.

- `<!-- run -->`: what follows a command is what it prints, to either stream.
- `<!-- run: live -->`: the same, but numbers, times and texts between quotes differ from run to run.
- `<!-- run: lossy -->`: live, and a command may end with status 1: a busy machine drops packets.
- `<!-- run: sample -->`: live, and which packets it shows is chance: only the first line of output and
  the last one are compared.
- `<!-- run: background -->`: the command goes on while the rest of the page runs; it prints this first.
- `<!-- run: hidden COMMAND -->` and `<!-- run: hidden background COMMAND -->` have no block, nor has
  `<!-- run: hidden finally COMMAND -->`: it runs at the end in any case.

A block after `<!-- file: NAME -->` is a file in that folder. `python docs/transcripts.py` rewrites the
output that has changed, and all output of pages that are named; tests/test_docs.py compares it. Long JSON is
wrapped.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import hopscope
from hopscope.library.samples import SAMPLES
from hopscope.testbed import namespaces, state

PAGES = sorted(Path(__file__).parent.rglob("*.md"))
MARK = re.compile(r"^<!-- run(?:: (.*?))? -->\n(?:```console\n(.*?)^```)?", re.S | re.M)
FILE = re.compile(r"<!-- file: (\S+) -->\n```\w+\n(.*?)^```", re.S | re.M)
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n", re.M)
CHANGING = re.compile(r"(?:took +|in )[\d.]+ s\b")
"""Durations: they differ from run to run."""
NAMED = namespaces.FOLDER, state.home()
"""Folders that have a file for each name that a guide gives to something of the whole machine."""
DROPPED = ("hopscope: compil", "hopscope: all of history was searched", "Running as user")
"""A command that is the first to need a kernel says so; the next one does not. A question that took long, as
on a busy machine, says how to ask for less. tshark warns root.
"""
WIDTH = 118
SECONDS = 300
QUIET_SECONDS = 3
"""To rewrite, a command in the background that prints nothing for so long has started."""


class Block(NamedTuple):
    """One block of a page, and what its commands print."""

    shown: str
    printed: str
    how: str

    @property
    def same(self) -> bool:
        """Whether both are equal but for what differs from run to run."""
        return _comparable(self.shown, self.how) == _comparable(self.printed, self.how)


def run(page: str, folder: Path, rewrite: bool = False) -> Iterator[Block]:
    """Every block that is to be run, after running its commands, in order, in this folder."""
    for name in SAMPLES:
        (folder / name).write_bytes(hopscope.sample(name).read_bytes())
    programs = folder / ".bin"
    programs.mkdir()
    for name, command in (("hopscope", f'"{sys.executable}" -m hopscope'), ("sudo", "")):
        (programs / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (programs / name).chmod(0o755)
    for name, text in FILE.findall(page):
        (folder / name).write_text(text)
    with ExitStack() as stack:
        shell = [*stack.enter_context(_network()), "env", f"--chdir={folder}", "bash", "-c"]
        for how, block in MARK.findall(page):
            if how.startswith("hidden"):
                command = how.removeprefix("hidden ")
                if command.startswith("finally "):
                    stack.callback(_print, [*shell, command.removeprefix("finally ")], folder)
                elif command.startswith("background "):
                    stack.enter_context(_background([*shell, command.removeprefix("background ")], folder, 0))
                else:
                    _print([*shell, command], folder)
                continue
            parts = []
            for command in COMMAND.findall(block):
                if how == "background":
                    lines = None if rewrite else block.count("\n") - command.count("\n") - 1
                    text = stack.enter_context(_background([*shell, command], folder, lines))
                else:
                    text = _print([*shell, command], folder, 1 if how == "lossy" else 0)
                parts.append(f"$ {command}\n{text}")
            yield Block(block, "".join(parts), how)


def _environment(folder: Path) -> dict[str, str]:
    return {
        **os.environ, "PATH": f"{folder / '.bin'}:{os.environ['PATH']}", "COLUMNS": "200", "NO_COLOR": "1",
        "XDG_DATA_HOME": str(folder / ".data"), "XDG_CONFIG_HOME": str(folder / ".config"),
    }  # fmt: skip


@contextmanager
def _network() -> Iterator[list[str]]:
    """What runs a command in a network of its own, with names of its own."""
    root = os.geteuid() == 0
    begin = ["unshare", *([] if root else ["--user", "--map-root-user"]), "--net", "--mount"]
    into = [*([] if root else ["--user", "--preserve-credentials"]), "--net", "--mount"]
    hide = "".join(f"mkdir -p {each} && mount -t tmpfs tmpfs {each} && " for each in (NAMED if root else ()))
    begin += ["sh", "-c", f"{hide}ip link set lo up && echo up && exec sleep infinity"]
    with subprocess.Popen(begin, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        try:
            if holder.stdout.readline() != "up\n":
                raise OSError("no network namespace can be made here")
            yield ["nsenter", "--target", str(holder.pid), *into]
        finally:
            holder.kill()


def _print(command: list[str], folder: Path, most: int = 0) -> str:
    """What a command prints. RuntimeError: it ends with a status above `most`."""
    done = subprocess.run(
        command, cwd=folder, env=_environment(folder), text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=SECONDS,
    )  # fmt: skip
    if not 0 <= done.returncode <= most:
        raise RuntimeError(f"{command[-1]}: {done.stdout or done.returncode}")
    return _tidy(done.stdout)


@contextmanager
def _background(command: list[str], folder: Path, lines: int | None) -> Iterator[str]:
    """A command that goes on, and what it printed at first: so many lines, or (None) until it is quiet."""
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=_environment(folder), start_new_session=True,
            stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            text, last = "", time.monotonic()
            while (
                text.count("\n") < lines
                if lines is not None
                else not text or time.monotonic() < last + QUIET_SECONDS
            ):
                time.sleep(0.1)
                output.seek(0)
                if (now := _tidy(output.read())) != text:
                    text, last = now, time.monotonic()
                if process.poll() is not None or time.monotonic() > last + SECONDS:
                    raise RuntimeError(f"{command[-1]}: {text or process.returncode}")
            yield "".join(text.splitlines(keepends=True)[:lines])
        finally:
            os.killpg(process.pid, signal.SIGINT)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _tidy(text: str) -> str:
    lines = []
    for line in text.splitlines():
        if '","' in line and len(line) > WIDTH:
            lines += _wrapped(line)
        elif not line.startswith(DROPPED):
            lines.append(line)
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _wrapped(line: str) -> list[str]:
    lines = [""]
    for part in re.findall(r"[^,]*,|[^,]+$", line):
        if len(lines[-1]) + len(part) > WIDTH:
            lines.append(" ")
        lines[-1] += part.lstrip() if lines[-1] == " " else part
    return lines


def _comparable(text: str, how: str) -> str:
    if how not in ("live", "lossy", "sample"):
        return CHANGING.sub("N", text)
    if how == "sample":
        lines = text.splitlines()
        text = "\n".join([*lines[:2], *lines[-1:]])
    text = re.sub(r'"[^"]*"(\s*:)?', lambda found: found[0] if found[1] else "V", text)
    text = re.sub(r"\b(?:null|true|false)\b", "V", text)
    text = re.sub(r"(?<![a-zA-Z_])-?[\d.,:]*\d[\w.%,:+-]*", "V", text)
    return re.sub(r"\s+|-{3,}", "", text)


def main() -> int:
    """Rewrite what has changed, and all blocks of pages that are named."""
    for path in [Path(name).resolve() for name in sys.argv[1:]] or PAGES:
        page = path.read_text()
        if not MARK.search(page):
            continue
        with tempfile.TemporaryDirectory() as folder:
            blocks = list(run(page, Path(folder), rewrite=True))
        left = iter(blocks)

        def written(found: re.Match[str], left: Iterator[Block] = left) -> str:
            if found[2] is None:
                return found[0]
            block = next(left)
            return found[0] if block.same and not sys.argv[1:] else found[0].replace(*block[:2])

        after = MARK.sub(written, page)
        if after != page:
            print(f"{path.name}: changed")
            path.write_text(after)
    return 0


if __name__ == "__main__":
    sys.exit(main())
