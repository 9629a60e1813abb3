"""Whether the collector can read what this user cannot: checks are often run by another user."""

from __future__ import annotations

import os
import stat
from pathlib import Path

CREDENTIALS = Path("/run/credentials")
"""Where systemd puts a service's credentials while it runs, readable by it alone (systemd.exec(5))."""


def may_have(secret: str, data: Path) -> str:
    """Why the collector may have a secret that this user lacks, and how to check; empty: neither has it.

    `secret` is as in the settings, `env:NAME` or `file:PATH`; the data folder is the collector's.
    """
    reader = ""
    if secret.startswith("file:"):
        file = Path(secret.removeprefix("file:"))
        if file.is_relative_to(CREDENTIALS) and "CREDENTIALS_DIRECTORY" not in os.environ:
            return "systemd gives it to the service while that runs, if its unit has LoadCredential= for it"
        if (place := _closed(file)) is None:
            return ""
        reader = _reader(place)
    elif other_owner(data):
        return "its unit may set it: `systemctl show -p Environment,EnvironmentFiles hopscope`"
    if who := other_owner(data):
        return f"the collector may have it: `sudo -u {who} hopscope check` looks as its user"
    if reader and not data.exists():
        return f"only {reader} can read it: check as the user that runs the collector"
    return ""


def who_may(path: Path) -> str:
    """As whom to run a command that may not open this file or folder; empty: its owner would not help."""
    place = _closed(path)
    if place is None or not (who := other_owner(place)):
        return ""
    return f"{place} belongs to {who}: run the command by `sudo -u {who}`"


def other_owner(path: Path) -> str:
    """The owner of a file or folder, as for `sudo -u`; empty: this user, or it does not exist."""
    import pwd

    try:
        owner = path.stat().st_uid
    except OSError:
        return ""
    if owner == os.geteuid():
        return ""
    try:
        return pwd.getpwuid(owner).pw_name
    except KeyError:
        return f"'#{owner}'"


def _closed(file: Path) -> Path | None:
    """The file, or the folder that contains it, that this user may not read; None: the file is missing."""
    for path in (file, *file.parents):
        try:
            path.stat()
        except PermissionError:  # the folder is closed, too
            continue
        except OSError:
            return None
        return None if os.access(path, os.R_OK) else path
    return None


def _reader(path: Path) -> str:
    """Who may read a file, apart from root, if this user may not; empty: nobody."""
    found = path.stat()
    if found.st_uid:
        return other_owner(path)
    return "its group" if found.st_gid and found.st_mode & stat.S_IRGRP else ""
