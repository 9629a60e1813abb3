"""Finds the collectors, and the writers of stores, that are running on this machine."""

from __future__ import annotations

import os
from pathlib import Path

from ..base.process.control_client import SOCKET_NAME

SOCKETS = Path("/proc/net/unix")
STORES_SOCKET = "stores.sock"
"""Socket on which the writer of a folder of stores listens, only to be found."""
_LISTENS = 0x10000
"""Flag of a socket that accepts connections (__SO_ACCEPTCON)."""


def running_folders(sockets: Path = SOCKETS) -> list[Path]:
    """Data folders of this user's running collectors, found by their listening control sockets (proc_net(5)).

    A collector is not found if it is in another network namespace, or if the path of its data folder is
    longer than 94 bytes, which is too long for the name of a socket.
    """
    return _listening(SOCKET_NAME, sockets)


def running_stores(sockets: Path = SOCKETS) -> list[Path]:
    """Folders of stores to which a translator or software NIC of this user writes; the same limits apply."""
    return _listening(STORES_SOCKET, sockets)


def _listening(name: str, sockets: Path) -> list[Path]:
    """Folders that have a listening socket with this name."""
    try:
        lines = sockets.read_text(errors="replace").splitlines()[1:]
    except OSError:
        return []
    found = set()
    for line in lines:
        fields = line.split(maxsplit=7)
        if len(fields) == 8 and int(fields[3], 16) & _LISTENS and fields[7].endswith(f"/{name}"):
            found.add(Path(fields[7]).parent)
    return sorted(folder for folder in found if _is_own(folder))


def _is_own(folder: Path) -> bool:
    """Whether the folder belongs to this user, so that no other user can answer for it."""
    try:
        return folder.is_absolute() and folder.stat().st_uid == os.geteuid()
    except OSError:
        return False
