"""Compiles the programs: `make bpf`, and the build hook of the wheel. It imports nothing of Hopscope."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

PROGRAMS = Path(__file__).resolve().parent / "programs"
"""Sources in C, and the objects compiled from them, which a wheel carries and a repository does not."""
REPORTS_OBJECT = PROGRAMS / "reports.bpf.o"
"""The program of a listener, for XDP."""
WIRE_OBJECT = PROGRAMS / "wire.bpf.o"
"""The program of a sink in a wire, for XDP."""
SWITCH_OBJECT = PROGRAMS / "switch.bpf.o"
"""The programs of a switch, at tc."""
LABEL_OBJECT = PROGRAMS / "label.bpf.o"
"""The programs of INT-label, at tc."""
DROPS_OBJECT = PROGRAMS / "drops.bpf.o"
"""The program of a switch at the tracepoint of dropped packets."""


class BuildError(Exception):
    """The program cannot be compiled; the message has the remedy."""


def compile_programs(folder: Path = PROGRAMS, clang: str = "clang") -> list[Path]:
    """Compile all programs with clang into a folder; returns the object files. Raises BuildError."""
    return [compile_program(folder, source, clang) for source in sorted(PROGRAMS.rglob("*.bpf.c"))]


def compile_program(folder: Path, source: Path, clang: str = "clang") -> Path:
    """Compile a program with clang into a folder; returns the object file. Raises BuildError."""
    if shutil.which(clang) is None:
        raise BuildError(f"{clang} is missing: install it and libbpf-dev")
    target = folder / source.with_suffix(".o").name
    folders = (f"-I{PROGRAMS}", f"-I/usr/include/{platform.machine()}-linux-gnu")
    words = [clang, "-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Werror", *folders]
    done = subprocess.run(
        [*words, "-c", str(source), "-o", str(target)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BuildError(f"clang failed; are clang and libbpf-dev installed?\n{done.stderr}")
    return target


if __name__ == "__main__":
    print(*compile_programs(), sep="\n")
