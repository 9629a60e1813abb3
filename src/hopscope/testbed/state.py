"""What is written down of a running fabric: a folder each, so that after any crash all of it is found.

====================== =====================================================================================
FOLDER/fabric.json     name, topology, sizes, processes with their start times, address of the page
FOLDER/settings.json   settings of the collector
FOLDER/registers.region registers of the switches (`registers`)
FOLDER/switches.log    what the switch process says; `collector.log` likewise
FOLDER/data, regions   of the collector, unless it was given another data folder
====================== =====================================================================================
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import platformdirs

from .fabric import Plan, TestbedError, plan
from .namespaces import found, is_running, started_at

SCHEMA = 1
DEFAULT_NAME = "fabric"
REGISTERS_FILE, SETTINGS_FILE, STATE_FILE = "registers.region", "settings.json", "fabric.json"
MARK = "TESTBED_OF_HOPSCOPE"
"""In the environment of every process of a fabric: its folder. So they are found after any crash."""
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")


@dataclass
class State:
    """What FOLDER/fabric.json says."""

    name: str
    topology: str
    max_hop: int
    inner_mtu: int
    interval: float
    """T, s."""
    export: str
    """Where last hops send labels, as `127.0.0.1:7254`."""
    data: str
    """Data folder of the collector."""
    adaptive: str = "off"
    """How the controller changes intervals: `label.adaptive.mode`."""
    page: str = ""
    """Address of the live page, once it is served."""
    processes: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Process id and start time (clock ticks) by role."""
    schema: int = SCHEMA

    @property
    def folder(self) -> Path:
        """Where it is written."""
        return folder_of(self.name)

    @property
    def registers(self) -> Path:
        """Registers of its switches."""
        return self.folder / REGISTERS_FILE

    @property
    def mark(self) -> str:
        """What every process of it has in its environment."""
        return mark_of(self.name)

    def plan(self) -> Plan:
        """Its parts."""
        from ..fabric.topology import parse_topology

        return plan(parse_topology(self.topology), self.name, max_hop=self.max_hop, inner_mtu=self.inner_mtu)

    def started(self, role: str, process: int) -> None:
        """Note a process that was started."""
        self.processes[role] = (process, started_at(process))
        self.write()

    def running(self) -> dict[str, bool]:
        """Whether the process of each role runs still."""
        return {role: is_running(process, since) for role, (process, since) in self.processes.items()}

    def write(self) -> None:
        """Write it; readers see the old or the new one."""
        draft = self.folder / f".{STATE_FILE}.{os.getpid()}"
        draft.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        draft.replace(self.folder / STATE_FILE)


def home() -> Path:
    """Folder of all fabrics: under the system's runtime folder."""
    return Path(platformdirs.site_runtime_dir("hopscope")) / "fabric"


def check_name(name: str) -> str:
    """The name, if it can be one: it becomes part of paths and namespaces. Raises TestbedError."""
    if not _NAME.fullmatch(name):
        raise TestbedError(f"--name {name!r}: expected 1 to 32 small letters, digits and dashes, as 'second'")
    return name


def folder_of(name: str) -> Path:
    """Folder of a fabric of this name."""
    return home() / check_name(name)


def mark_of(name: str) -> str:
    """As in the environment of its processes."""
    return f"{MARK}={folder_of(name)}"


def read(name: str) -> State | None:
    """The state of a fabric of this name; None where nothing, or nothing whole, was written."""
    try:
        told: dict[str, Any] = json.loads((folder_of(name) / STATE_FILE).read_text(encoding="utf-8"))
        told["processes"] = {role: (int(one), int(two)) for role, (one, two) in told["processes"].items()}
        state = State(**told)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    return state if (state.schema, state.name) == (SCHEMA, name) else None


def running(name: str) -> State:
    """The state of a fabric that is up. Raises TestbedError for one that is not."""
    state = read(name)
    if state is None or not any(state.running().values()):
        if name in names():
            flag = "" if name == DEFAULT_NAME else f" --name {name}"
            raise TestbedError(
                f"fabric {name!r} has ended, but not all of it is gone: hopscope fabric down{flag} removes it"
            )
        others = ", ".join(one for one in names() if one != name)
        also = f"; there is {others} (--name)" if others else ""
        raise TestbedError(f"no fabric {name!r} is up: start it with hopscope fabric up{also}")
    return state


def names() -> list[str]:
    """Names of all fabrics of which anything is left."""
    folders = [path.name for path in home().glob("*") if path.is_dir()] if home().is_dir() else []
    spaces = [parts[1] for one in found("hopscope.") if len(parts := one.split(".")) == 3]
    return sorted({one for one in (*folders, *spaces) if _NAME.fullmatch(one)})


@contextmanager
def alone(name: str) -> Iterator[None]:
    """Hold the fabric's lock: one command at a time makes or deletes it. Raises TestbedError."""
    path = home() / f"{check_name(name)}.lock"
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    with ExitStack() as stack:
        while True:
            lock = stack.enter_context(path.open("ab"))
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(lock.fileno()), path.stat()):
                    break
            except BlockingIOError:
                raise TestbedError(
                    f"fabric {name!r}: another hopscope fabric command is starting or ending it"
                ) from None
            except FileNotFoundError:
                pass  # the holder before us has deleted it: the next one makes it anew
        try:
            yield
        finally:
            if not folder_of(name).exists():
                path.unlink(missing_ok=True)


def remove(name: str) -> bool:
    """Delete the folder; False where there was none."""
    folder = folder_of(name)
    there = folder.exists()
    shutil.rmtree(folder, ignore_errors=True)
    return there
