"""Compiles the programs: `make bpf`, and the build hook of the wheel. It imports nothing of Hopscope."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

SOURCES = Path(__file__).resolve().parent
OBJECT = "reports.bpf.o"
"""The compiled program of a listener; a wheel carries it, a repository does not."""
WIRE_OBJECT = "wire.bpf.o"
"""The compiled program of a sink in a wire."""
SWITCH_OBJECT = "switch.bpf.o"
"""The compiled programs of a switch, at tc."""
LABEL_OBJECT = "label.bpf.o"
"""The compiled programs of INT-label, at tc."""
DROPS_OBJECT = "drops.bpf.o"
"""The compiled program of a switch at the tracepoint of dropped packets."""
OBJECTS = (OBJECT, WIRE_OBJECT, SWITCH_OBJECT, LABEL_OBJECT, DROPS_OBJECT)


class BuildError(Exception):
    """The program cannot be compiled; the message has the remedy."""


def compile_programs(folder: Path = SOURCES, clang: str = "clang") -> list[Path]:
    """Compile all programs with clang into a folder; returns the object files. Raises BuildError."""
    return [compile_program(folder, (SOURCES / name).with_suffix(".c"), clang) for name in OBJECTS]


def compile_program(folder: Path, source: Path, clang: str = "clang") -> Path:
    """Compile a program with clang into a folder; returns the object file. Raises BuildError."""
    if shutil.which(clang) is None:
        raise BuildError(f"{clang} is missing: install it and libbpf-dev")
    target = folder / source.with_suffix(".o").name
    headers = f"/usr/include/{platform.machine()}-linux-gnu"
    words = [clang, "-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Werror", f"-I{headers}"]
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
