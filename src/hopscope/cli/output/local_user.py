"""The user who runs a command."""

from __future__ import annotations

import os


def local_user() -> str:
    """Name of this process's user on this machine, or its number."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"
