"""Programs as a user without rights, though the tests run as root."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

import pytest

import hopscope
from hopscope.base.kernels.kernel_cache import cache_folder

USER = 42_424
"""A user id that the machine does not know."""


@contextmanager
def home_of_user() -> Iterator[Path]:
    """A folder of that user that it can reach: those of pytest are closed to others."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    folder = Path(mkdtemp(prefix="hopscope-user-"))
    try:
        os.chown(folder, USER, USER)
        yield folder
    finally:
        shutil.rmtree(folder)


def as_user(command: Sequence[str], home: Path, capabilities: Sequence[str] = ()) -> list[str]:
    """A command line, for root, that runs `command` as USER with these capabilities and no others.

    Python, its environment and the sources are mounted into a view of the files in which no folder above
    them is closed to others; so is the cache of kernels, which stays root's.
    """
    cache, kernels = cache_folder().parent, home / "kernels"
    lines = [f"mkdir -p {kernels}", f"mount --bind {shlex.quote(str(cache))} {kernels}"]
    sources = Path(hopscope.__file__).parents[1]
    below: dict[Path, list[Path]] = {}
    for path in {Path(each).resolve() for each in (sys.base_prefix, sys.prefix, sources)}:
        if closed := next((each for each in reversed(path.parents) if not each.stat().st_mode & 0o001), None):
            below.setdefault(closed, []).append(path)
    for closed, paths in below.items():
        kept = [home / f"kept-{number}" for number in range(len(paths))]
        for path, place in zip(paths, kept, strict=True):
            lines += [f"mkdir -p {place}", f"mount --bind {shlex.quote(str(path))} {place}"]
        lines.append(f"mount -t tmpfs -o mode=755 tmpfs {closed}")
        for path, place in zip(paths, kept, strict=True):
            lines += [f"mkdir -p {shlex.quote(str(path))}", f"mount --move {place} {shlex.quote(str(path))}"]
    sets = "-all" + "".join(f",+{name}" for name in capabilities)
    caps = [f"--inh-caps={sets}", f"--ambient-caps={sets}", f"--bounding-set={sets}"]
    user = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--no-new-privs", *caps]
    variables = ["env", f"HOPSCOPE_KERNEL_CACHE={kernels}", f"HOME={home}", f"XDG_DATA_HOME={home}"]
    lines.append("exec " + shlex.join([*user, *variables, *command]))
    return ["unshare", "--mount", "sh", "-ec", "\n".join(lines)]
