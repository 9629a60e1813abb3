"""Hopscope as it is installed: a wheel with compiled kernels in an environment of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def environment(cache: Path) -> dict[str, str]:
    """Variables for an installed Hopscope, with the cache of its kernels."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return kept | {"HOPSCOPE_KERNEL_CACHE": str(cache)}


def run(*command: str | Path, cwd: Path, cache: Path | None = None) -> str:
    """Output of a command, which succeeds."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=environment(cache or cwd / "cache"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def install(folder: Path) -> None:
    """Make an environment `clean` in `folder`, in which a wheel is, built as by `make wheel`."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, env=os.environ | {"HOPSCOPE_SHIP_KERNELS": "1"}, check=True)
    wheel = next(folder.glob("hopscope-*-linux_*.whl"))
    run(sys.executable, "-m", "venv", "--without-pip", "clean", cwd=folder)  # a copy of pip takes 5 s
    pip = (sys.executable, "-m", "pip", "--python", folder / "clean/bin/python", "--quiet")
    run(*pip, "--disable-pip-version-check", "install", "--no-compile", wheel, cwd=folder)
