"""First start on an empty kernel cache, and the second: seconds, processor seconds, kernels compiled.

    python bench/first_start.py [--hopscope COMMAND] [--quick] [--json]

`--hopscope` names another installation's command, as one with the wheel of `make wheel`.  Starts of the
same command follow each other, in a folder of their own; the second one finds the first one's kernels.
Python's own start and the reading of .pyc files are included.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness.common import Bench
from hopscope.library.samples import SAMPLES, sample


def started(command: list[str], folder: Path, until: str | None) -> tuple[float, float, int]:
    """Seconds and processor seconds until it ends, or has said `until`; kernels that it compiled."""
    cache = folder / "cache"
    before, had = resource.getrusage(resource.RUSAGE_CHILDREN), kernels(cache)
    begin = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=os.environ | {"HOPSCOPE_KERNEL_CACHE": str(cache)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if until is not None and until in line:
            break
    seconds = time.monotonic() - begin
    if until is not None:
        process.send_signal(signal.SIGINT)
    process.communicate()
    if process.returncode not in (0, 130):  # 130: interrupted while it still starts its simulation
        sys.exit(f"{' '.join(command)} ended with {process.returncode}:\n{''.join(lines)}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, used, kernels(cache) - had


def kernels(cache: Path) -> int:
    """Compiled kernels in a cache, whichever version wrote them."""
    return len([*cache.rglob("*.inner"), *cache.rglob("*.nbc")])


def arguments(parser: argparse.ArgumentParser) -> None:
    """Which installation."""
    parser.add_argument(
        "--hopscope", default=str(Path(sys.executable).with_name("hopscope")), help="the command to start"
    )


def main() -> None:
    """First and second start of each command."""
    bench, options = Bench.start(
        "first_start",
        "seconds until a command is ready (collect, demo) or has ended (replay, sink), kernels "
        "compiled until then, and CPU seconds of all its processes.",
        "the first time that an installation reads its .pyc files.",
        arguments,
    )
    capture = str(sample(next(iter(SAMPLES))))
    listen = ["--listen", "udp://127.0.0.1:0", "--no-serve", "--data", "data"]
    commands: dict[str, tuple[list[str], str | None]] = {
        "replay": (["replay", capture], None),
        "collect": (["collect", *listen], "collecting"),
        "sink": (["sink", capture, "--output", "out.pcap"], None),
        "demo": (["demo", "--http-port", "0"], "http://"),
    }
    for name, (words, until) in commands.items():
        if bench.quick and name != "replay":
            continue
        with tempfile.TemporaryDirectory() as folder:
            for start in ("empty", "filled"):
                seconds, used, compiled = started([options.hopscope, *words], Path(folder), until)
                note = f"{used:.1f} CPU seconds, {compiled} kernels compiled"
                bench.row({"command": name, "kernel cache": start}, seconds, "s", note)


if __name__ == "__main__":
    main()
