"""Persistent state of running fabrics: each has a folder, so that all its parts are found after a crash.

====================== =====================================================================================
FOLDER/fabric.json     name, topology, sizes, processes with their start times, address of the page
FOLDER/settings.json   settings of the collector
FOLDER/topology.toml   an own topology, as it was at the start
FOLDER/registers.region registers of the switches (`registers`)
FOLDER/switches.log    log of the switch process; `collector.log` likewise
FOLDER/data, regions   of the collector, unless it has another data folder
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

from .fabric import FabricPlan, TestbedError, plan
from .namespaces import found, is_running, started_at

SCHEMA = 1
DEFAULT_NAME = "fabric"
REGISTERS_FILE, SETTINGS_FILE, STATE_FILE = "registers.region", "settings.json", "fabric.json"
TOPOLOGY_FILE = "topology.toml"
MARK = "TESTBED_OF_HOPSCOPE"
"""Environment variable of every process of a fabric: its folder, to find processes after a crash."""
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")


@dataclass
class FabricState:
    """Content of FOLDER/fabric.json."""

    name: str
    topology: str
    max_hop: int
    inner_mtu: int
    interval: float
    """T, s."""
    export: str
    """Address to which last hops send labels, such as `127.0.0.1:7254`."""
    data: str
    """Data folder of the collector."""
    adaptive: str = "off"
    """Adaptive mode of the controller: `label.adaptive.mode`."""
    page: str = ""
    """Address of the console, once it is served."""
    processes: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Process id and start time (clock ticks) by role."""
    schema: int = SCHEMA

    @property
    def folder(self) -> Path:
        """Folder of the state."""
        return folder_of(self.name)

    @property
    def registers(self) -> Path:
        """File of the switches' registers."""
        return self.folder / REGISTERS_FILE

    @property
    def mark(self) -> str:
        """Environment entry of its processes."""
        return mark_of(self.name)

    def plan(self) -> FabricPlan:
        """The parts of the fabric."""
        from ..fabric.topology import parse_topology

        return plan(parse_topology(self.topology), self.name, max_hop=self.max_hop, inner_mtu=self.inner_mtu)

    def started(self, role: str, process: int) -> None:
        """Record a started process."""
        self.processes[role] = (process, started_at(process))
        self.write()

    def running(self) -> dict[str, bool]:
        """Whether the process of each role still runs."""
        return {role: is_running(process, since) for role, (process, since) in self.processes.items()}

    def write(self) -> None:
        """Write it atomically."""
        draft = self.folder / f".{STATE_FILE}.{os.getpid()}"
        draft.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        draft.replace(self.folder / STATE_FILE)


def home() -> Path:
    """Folder of all fabrics, in the system's runtime folder."""
    return Path(platformdirs.site_runtime_dir("hopscope")) / "fabric"


def check_name(name: str) -> str:
    """Check a name, which becomes part of paths and namespaces. Raises TestbedError."""
    if not _NAME.fullmatch(name):
        raise TestbedError(
            f"--name {name!r}: expected 1 to 32 lower-case letters, digits and dashes, such as 'second'"
        )
    return name


def folder_of(name: str) -> Path:
    """Folder of a fabric of this name."""
    return home() / check_name(name)


def mark_of(name: str) -> str:
    """Environment entry of a fabric's processes: its folder, and the file system of the folder. A fabric with
    the same name in another mount namespace is a different one.
    """
    there = next(folder for folder in (home(), *home().parents) if folder.exists())
    return f"{MARK}={folder_of(name)}@{there.stat().st_dev}"


def read(name: str) -> FabricState | None:
    """The state of a fabric; None if there is none, or it is incomplete."""
    try:
        content: dict[str, Any] = json.loads((folder_of(name) / STATE_FILE).read_text(encoding="utf-8"))
        processes = content["processes"].items()
        content["processes"] = {role: (int(process), int(start)) for role, (process, start) in processes}
        state = FabricState(**content)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    return state if (state.schema, state.name) == (SCHEMA, name) else None


def running(name: str) -> FabricState:
    """The state of a running fabric. Raises TestbedError if it is not running."""
    state = read(name)
    if state is None or not any(state.running().values()):
        if name in names():
            flag = "" if name == DEFAULT_NAME else f" --name {name}"
            raise TestbedError(
                f"fabric {name!r} has ended, but parts of it remain: hopscope fabric down{flag} removes it"
            )
        others = ", ".join(other for other in names() if other != name)
        also = f"; there is {others} (--name)" if others else ""
        raise TestbedError(f"no fabric {name!r} is up: start it with hopscope fabric up{also}")
    return state


def names() -> list[str]:
    """Names of all fabrics with any remaining parts."""
    folders = [path.name for path in home().glob("*") if path.is_dir()] if home().is_dir() else []
    spaces = [parts[1] for space in found("hopscope.") if len(parts := space.split(".")) == 3]
    return sorted({name for name in (*folders, *spaces) if _NAME.fullmatch(name)})


@contextmanager
def alone(name: str) -> Iterator[None]:
    """Hold the fabric's lock: one command at a time creates or deletes it. Raises TestbedError."""
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
                pass  # the previous holder deleted it: open it again
        try:
            yield
        finally:
            if not folder_of(name).exists():
                path.unlink(missing_ok=True)


def remove(name: str) -> bool:
    """Delete the folder; False if there was none."""
    folder = folder_of(name)
    there = folder.exists()
    shutil.rmtree(folder, ignore_errors=True)
    return there
