"""The cache of compiled kernels. Its keys depend on the code of the kernels, not on paths, times or
docstrings.

The key of a kernel module is made from the code of its file, and of everything that it imports at its top
level (`*_kernel.py`, layouts, records, `jit` and `compiler`). So after a change to a kernel, it and the
kernels built on it are compiled again; after a change to a docstring, nothing is. Files are searched first
in the package (`make wheel` puts compiled kernels there), then in the user's cache. There is one file for
each kernel and its argument types, written as a whole, so that processes that compile at the same time share
the files.

The files contain machine code and pickles, so they are used only if no other user could have written them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

from ..user_folder import user_folder

PACKAGE = Path(__file__).parents[2]
SHIPPED = PACKAGE / "compiled"
"""Kernels that are shipped in the wheel, read-only."""
KEEP_SECONDS = 30 * 86_400
"""Kernels that no process has loaded for this long are deleted."""
_DAY = 86_400

notices: list[Callable[[str], None]] = []
"""Functions that are called with the name of each kernel that has to be compiled, and with "" when it is
ready.
"""
loaded: set[str] = set()
"""Names of the files that this process has read or written."""

_IMPORT = re.compile(r"^from (\.*)([\w.]*) import (\([^)]*\)|[^\n]*)", re.MULTILINE)
_PROSE = re.compile(r'^[ \t]*"""(?:[^"]|"(?!""))*"""[ \t]*$|[ \t]+# [^"\'\n]*$|^#.*$', re.MULTILINE)
"""Matches docstrings and comments, on which no machine code depends."""


@cache
def _is_file(name: str) -> bool:
    return os.path.isfile(name)  # noqa: PTH113  # pathlib takes twenty times as long


@cache
def _imports(path: Path) -> tuple[Path, ...]:
    """The files of this package that a file imports at its top level."""
    return tuple(map(Path, dict.fromkeys(_find_imports(path))))


def _find_imports(path: Path) -> Iterator[str]:
    for dots, module, names in _IMPORT.findall(path.read_text(encoding="utf-8")):
        if dots:
            folder = str(path.parents[len(dots) - 1])
        elif module.partition(".")[0] == PACKAGE.name:
            folder = str(PACKAGE.parent)
        else:
            continue
        base = "/".join([folder, *module.split(".")]) if module else folder
        for name in re.findall(r"(\w+)(?: as \w+)?", names.partition("#")[0]):
            for file in (f"{base}/{name}.py", f"{base}.py"):
                if _is_file(file):
                    yield file
                    break


def _reached(paths: Iterable[Path]) -> tuple[Path, ...]:
    """These files, and all files of this package that they import, directly or not, sorted."""
    found = set(paths)
    ahead = list(found)
    while ahead:
        for other in _imports(ahead.pop()):
            if other not in found:
                found.add(other)
                ahead.append(other)
    return tuple(sorted(found))


@cache
def closure(path: Path) -> tuple[Path, ...]:
    """A file, and all files of this package that it imports, directly or not, sorted."""
    return _reached([path])


@cache
def _digest(path: Path) -> bytes:
    lines = _PROSE.sub("", path.read_text(encoding="utf-8")).split("\n")
    code = "\n".join(line for line in lines if line.strip())
    return hashlib.blake2b(code.encode(), digest_size=16).digest()


@cache
def fingerprint(path: Path) -> str:
    """A hash of everything that the machine code of a kernel module depends on: the code of its closure, and
    compiler flags.
    """
    return _fingerprint(closure(path))


@cache
def all_kernels() -> str:
    """The fingerprint of all kernels of the package, which changes with any of them."""
    return _fingerprint(_reached(PACKAGE.rglob("*_kernel.py")))


def _fingerprint(files: Iterable[Path]) -> str:
    digest = hashlib.blake2b(os.environ.get("NUMBA_BOUNDSCHECK", "0").encode(), digest_size=10)
    for file in files:
        digest.update(file.name.encode() + _digest(file))
    return digest.hexdigest()


def cache_folder() -> Path:
    """The user's folder of compiled kernels."""
    root = os.environ.get("HOPSCOPE_KERNEL_CACHE") or user_folder("cache")
    return Path(root) / "kernels"


def folder_of(path: Path) -> str:
    """The folder of a kernel module's files within that of a target: its dotted name and its fingerprint."""
    inside = path.is_relative_to(PACKAGE)
    name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts) if inside else path.stem
    return f"{name}/{fingerprint(path)}"


def notify(name: str) -> None:
    """Call all functions in `notices`."""
    for notice in notices:
        notice(name)


def foreign(state: os.stat_result) -> str | None:
    """The reason why another user could have written a file or folder; None if only
    this user or root could.
    """
    if not hasattr(os, "getuid"):  # Windows
        return None
    if state.st_uid not in (os.getuid(), 0):
        return f"belongs to user {state.st_uid}"
    if state.st_mode & stat.S_IWOTH or (state.st_mode & stat.S_IWGRP and state.st_gid != os.getgid()):
        return "can be written by other users"
    return None


@cache
def _distrusted(folder: Path) -> bool:
    try:
        reason = foreign(folder.stat())
    except OSError:
        return False
    if reason:
        print(
            f"hopscope: kernel cache {folder} {reason}, so it is not used: delete it, or set"
            " HOPSCOPE_KERNEL_CACHE",
            file=sys.stderr,
        )
    return reason is not None


def find(name: str) -> Path | None:
    """The path of a file in the package or the user's cache, if only this user or
    root could have written it.
    """
    if (path := SHIPPED / name).is_file():
        return path
    folder = cache_folder()
    try:
        state = (folder / name).lstat()
    except OSError:
        return None
    trusted = stat.S_ISREG(state.st_mode) and foreign(state) is None and not _distrusted(folder)
    return folder / name if trusted else None


def read(name: str) -> bytes | None:
    """The content of a file, or None; notes that the file is in use."""
    if (path := find(name)) is None:
        return None
    try:
        content = path.read_bytes()
    except OSError:
        return None
    loaded.add(name)
    with contextlib.suppress(OSError):
        if time.time() - path.parent.stat().st_mtime > _DAY:
            os.utime(path.parent)
    return content


def write(name: str, content: bytes) -> None:
    """Write a file into the user's cache, if that is possible."""
    if _distrusted(cache_folder()):
        return
    path = cache_folder() / name
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.unlink(missing_ok=True)
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, 0o644)) as file:
            file.write(content)
        temporary.replace(path)
        loaded.add(name)


def prune() -> None:
    """Delete kernels that no process has loaded for KEEP_SECONDS, which belong to older versions. Those of
    this version are kept, even if the machine's clock is far ahead.
    """
    current = {folder_of(path) for path in PACKAGE.rglob("*_kernel.py")}
    oldest = time.time() - KEEP_SECONDS
    for folder in cache_folder().glob("*/*/*/"):
        if f"{folder.parent.name}/{folder.name}" not in current and folder.stat().st_mtime < oldest:
            shutil.rmtree(folder, ignore_errors=True)
