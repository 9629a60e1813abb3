"""Reloads settings while a collector runs (SIGHUP): which may change, and which processes need them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import Any

from ...settings.collector import Settings

SHOW_NAMES = ("serve", "export")
"""Roles that read names once, when they start."""
CHANGEABLE: dict[str, tuple[str, ...]] = {
    "detect.thresholds": (),
    "detect.switches": (),
    "log": (),
    "names": SHOW_NAMES,
    "names_from": ("names",),
    "switches": ("control",),
    "control": ("control",),
    "cluster": ("cluster", "serve"),
    "lake": ("lake", "archive", "serve"),
    "export": ("export",),
    "metrics": ("export",),
    "history.keep_days": ("archive",),
    "history.keep_bytes": ("archive",),
    "serve.token": ("serve",),
    "serve.viewer_token": ("serve",),
    "serve.public_url": ("serve",),
    "serve.session_idle_seconds": ("serve",),
    "serve.session_seconds": ("serve",),
    "serve.proxy_addresses": ("serve",),
    "serve.proxy_user_header": ("serve",),
    "serve.proxy_role": ("serve",),
    "serve.proxy_role_header": ("serve",),
    "serve.proxy_operators": ("serve",),
    "serve.oidc": ("serve",),
    "serve.sql_seconds": ("serve",),
    "serve.sql_memory_bytes": ("serve",),
    "serve.sql_rows": ("serve",),
}
"""Settings that may change while a collector runs, with the roles of the processes that restart for them.

Limits are in shared memory; log settings are sent to every process.
"""


@dataclass(frozen=True, slots=True)
class ReloadResult:
    """What a reload changes."""

    settings: Settings
    """Settings in force from now on: the new values of those that may change."""
    changed: tuple[str, ...]
    """Keys that change."""
    left: tuple[str, ...]
    """Keys whose new value needs a restart of the collector."""
    roles: frozenset[str]
    """Roles of processes that start again."""


def stamps(settings: Settings) -> dict[str, tuple[int, ...]]:
    """By key, a stamp of every file that a setting names (also as `file:PATH`); a write changes it."""
    return dict(_stamps(settings.model_dump()))


def _stamps(tree: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, tuple[int, ...]]]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _stamps(value, f"{above}{name}.")
        elif isinstance(value, Path) or (isinstance(value, str) and value.startswith("file:")):
            try:
                found = Path(str(value).removeprefix("file:")).stat()
            except (OSError, ValueError):
                continue
            if S_ISREG(found.st_mode):
                yield f"{above}{name}", (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def reload(before: Settings, after: Settings, written: Collection[str] = ()) -> ReloadResult:
    """The effect of new settings. Raises ValueError if they do not fit those that cannot change.

    `written`: keys whose file has been written.
    """
    tree = before.model_dump()
    new = after.model_dump()
    changed, left, roles = [], [], set[str]()
    for key in dict.fromkeys([*_differences(tree, new), *written]):
        allowed = next((each for each in CHANGEABLE if f"{key}.".startswith(f"{each}.")), None)
        if allowed is None:
            left.append(key)
            continue
        changed.append(key)
        roles.update(CHANGEABLE[allowed])
        *above, last = key.split(".")
        to, come = tree, new
        for part in above:
            to, come = to[part], come[part]
        to[last] = come[last]
    return ReloadResult(Settings.model_validate(tree), tuple(changed), tuple(left), frozenset(roles))


def _differences(before: Mapping[str, Any], after: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """Dotted keys of values that differ."""
    for name, value in before.items():
        key = f"{above}{name}"
        if (
            isinstance(value, dict)
            and isinstance(after.get(name), dict)
            and value.keys() == after[name].keys()
        ):
            yield from _differences(value, after[name], f"{key}.")
        elif value != after.get(name):
            yield key
