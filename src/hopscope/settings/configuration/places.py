"""Files of settings that are read if none is named, and variables of the environment with settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from ...base.user_folder import user_folder

PREFIX = "HOPSCOPE_"
_OTHERS = frozenset({"CONFIG", "DATABASE_PASSWORD", "DEBUG", "KERNEL_CACHE", "REQUIRE_TOOLS"})
"""Variables with the prefix that are not settings. Grafana's environment has the password of dashboards."""

LOCAL_FILE = Path("hopscope.toml")
"""The file that is read from the current folder if no other is named."""


def default_file() -> Path:
    """The user's file, which is read if no other is named, none is in the current folder, and it exists."""
    return user_folder("config") / "config.toml"


def file_exists(file: Path) -> bool:
    """Whether this user sees such a file; not in a folder that is closed to them, as another's home."""
    try:
        return file.is_file()
    except PermissionError:
        return False


def spelled_in(key: str, origin: str, above: str = "") -> str:
    """A setting as it is written in `origin`: the name of a variable, which contains what is `above` the key,
    or else the key. A variable sets a whole list.
    """
    if not origin.startswith(PREFIX):
        return key
    return PREFIX + variable_part(f"{above}{key}".partition("[")[0]).replace(".", "__")


def variable_part(name: str) -> str:
    """A name as a part of a variable's name."""
    return name.upper().replace("-", "_")


def variables(environment: Iterable[str]) -> Iterator[str]:
    """The names of variables with settings."""
    for name in environment:
        if name.startswith(PREFIX) and name.removeprefix(PREFIX) not in _OTHERS:
            yield name
