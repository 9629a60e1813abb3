"""The CPUs on which threads of this process run; NUMA nodes of CPUs and interfaces."""

from __future__ import annotations

import os
from pathlib import Path

NODES = Path("/sys/devices/system/node")
INTERFACES = Path("/sys/class/net")
_rest: set[int] = set()


def allowed() -> set[int]:
    """The CPUs on which this thread may run; empty if unknown."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def pin(processors: set[int], rest: set[int]) -> None:
    """Make this thread, and the threads that it starts, run on these CPUs; `leave` switches to `rest`.

    Raises OSError if the thread may run on none of them.
    """
    _rest.update(rest)
    os.sched_setaffinity(0, processors)


def leave() -> None:
    """Make this thread run on the rest of the CPUs, if the thread that started it was pinned."""
    if _rest:
        os.sched_setaffinity(0, _rest)


def nodes(folder: Path = NODES) -> dict[int, set[int]]:
    """The CPUs of each NUMA node that has any; empty if unknown."""
    found = {}
    for path in folder.glob("node[0-9]*/cpulist"):
        if processors := read_list(path.read_text()):
            found[int(path.parent.name.removeprefix("node"))] = processors
    return dict(sorted(found.items()))


def node_of(interface: str, folder: Path = INTERFACES) -> int | None:
    """NUMA node of a network interface; None if unknown, or it has none."""
    try:
        node = int((folder / interface / "device" / "numa_node").read_text())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


def read_list(text: str) -> set[int]:
    """The numbers in a list such as `0-3,8` (cpuset(7))."""
    found = set[int]()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first:
            found.update(range(int(first), int(last or first) + 1))
    return found


def as_list(numbers: set[int]) -> str:
    """The inverse of `read_list`."""
    runs = list[list[int]]()
    for number in sorted(numbers):
        if runs and runs[-1][-1] == number - 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ",".join("-".join(map(str, run)) for run in runs)
