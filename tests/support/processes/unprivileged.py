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

    A Python below a folder that is closed to others is mounted into a view of the files in which it is not;
    so is the cache of kernels, which stays root's.
    """
    python, cache = Path(sys.base_prefix).resolve(), cache_folder().parent
    kernels = home / "kernels"
    lines = [f"mkdir -p {kernels}", f"mount --bind {shlex.quote(str(cache))} {kernels}"]
    if closed := next((each for each in reversed(python.parents) if not each.stat().st_mode & 0o001), None):
        kept = home / "python"
        lines += [
            f"mkdir -p {kept}",
            f"mount --bind {python} {kept}",
            f"mount -t tmpfs -o mode=755 tmpfs {closed}",
            f"mkdir -p {python}",
            f"mount --move {kept} {python}",
        ]
    sets = "-all" + "".join(f",+{name}" for name in capabilities)
    caps = [f"--inh-caps={sets}", f"--ambient-caps={sets}", f"--bounding-set={sets}"]
    user = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--no-new-privs", *caps]
    variables = ["env", f"HOPSCOPE_KERNEL_CACHE={kernels}", f"HOME={home}", f"XDG_DATA_HOME={home}"]
    lines.append("exec " + shlex.join([*user, *variables, *command]))
    return ["unshare", "--mount", "sh", "-ec", "\n".join(lines)]
