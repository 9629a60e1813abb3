"""Extras: packages that only some settings, commands and functions need."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

DEBIAN = Path("/usr/lib/hopscope")
"""Where the Debian package has its environment, without pip."""


def install_command(extra: str) -> str:
    """What a user types to install an extra beside this Hopscope, however that was installed."""
    home, what = Path(sys.prefix), f"'hopscope[{extra}]'"
    if home == DEBIAN:
        return f"make deb EXTRAS={extra}, in a clone; then install that package"
    if (home / "pipx_metadata.json").exists():
        return f"pipx runpip {home.name} install {what}"
    pip = home / "bin/pip"
    if pip.exists():
        return f"{shlex.quote(str(pip))} install {what}"
    return f"uv pip install --python {shlex.quote(str(home))} {what}"
