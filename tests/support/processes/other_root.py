"""A copy of this machine's files in which a test may install, change and delete anything: an overlay in
memory, in namespaces of its own.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

UNAVAILABLE = 77
"""Exit status if this machine cannot make one."""
_ENTER = """
mount --make-rprivate / && mount -t tmpfs tmpfs "$1" && cd "$1" && mkdir upper work root &&
mount -t overlay overlay -o lowerdir=/,upperdir="$1/upper",workdir="$1/work" root || exit 77
set -e
mount -t proc proc root/proc
mount --rbind /dev root/dev
mount -t tmpfs tmpfs root/dev/shm
mount --rbind /sys root/sys
mount -t tmpfs tmpfs root/run
mkdir -p root/given
mount --bind "$2" root/given
ip link set lo up
exec chroot root /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 HOME=/root \\
    DEBIAN_FRONTEND=noninteractive sh -ec "cd /; $3"
"""


def run_in_other_root(script: str, given: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a shell script in a copy of all files; /given is the folder `given`, and nothing else is mounted.

    `folder` is an empty one, to mount on.
    """
    words = ["unshare", "--mount", "--pid", "--ipc", "--net", "--fork", "--kill-child"]
    words += ["sh", "-c", _ENTER, "sh", str(folder), str(given), script]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)
