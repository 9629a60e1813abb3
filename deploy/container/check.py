"""Do what the Containerfile says in a chroot, where no container runtime is: `make container-check`.

    python deploy/container/check.py ROOT

ROOT is a folder with the base image's files (debootstrap makes one); an overlay in memory keeps it as it is.
Files are copied, commands run, and the program is started as its user without capabilities, until its health
check passes.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
ENTER = """
mount --make-rprivate / && mount -t tmpfs tmpfs "$1" && cd "$1" && mkdir upper work root
mount -t overlay overlay -o lowerdir="$2",upperdir="$1/upper",workdir="$1/work" root
mount -t proc proc root/proc && mount --rbind /dev root/dev && mount -t tmpfs tmpfs root/dev/shm
mkdir -p root/given && mount --bind "$3" root/given
cp /etc/resolv.conf root/etc/resolv.conf
exec chroot root /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive \\
    sh -exc "$4"
"""
Instruction = tuple[str, str]


def instructions(text: str) -> list[Instruction]:
    """Instructions of a Containerfile and their arguments, without comments and line ends."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in joined.splitlines() if line.strip()]


def script(found: list[Instruction]) -> str:
    """The shell script that does what they say, starts the program and waits for its health."""
    lines, last = [], dict(found)
    for name, given in found:
        if name == "COPY":
            *sources, target = given.split()
            lines.append(f"cp -r {' '.join(f'/given/{source}' for source in sources)} {target}")
        elif name == "RUN":
            lines.append(given)
        elif name == "ENV":
            lines.append(f"export {given}")
    user, group = last["USER"].split(":")
    program = shlex.join([*json.loads(last["ENTRYPOINT"]), *json.loads(last["CMD"])])
    health = shlex.join(json.loads(last["HEALTHCHECK"].split(" CMD ")[1]))
    rights = f"--reuid {user} --regid {group} --clear-groups --no-new-privs --bounding-set=-all"
    lines += [
        f"setpriv {rights} {program} &",
        "program=$!",
        f"until {health}; do kill -0 $program; sleep 1; done",
        "kill $program",
        "wait $program",
    ]
    return "\n".join(lines)


def main() -> int:
    """Exit status 0 if the program became healthy and ended properly."""
    found = instructions((Path(__file__).parent / "Containerfile").read_text())
    with tempfile.TemporaryDirectory() as folder:
        words = ["unshare", "--mount", "--pid", "--ipc", "--fork", "--kill-child", "sh", "-ec", ENTER, "sh"]
        root = os.path.abspath(sys.argv[1])  # noqa: PTH100 - a text for the shell
        done = subprocess.run([*words, folder, root, PROJECT, script(found)], check=False)
    print("healthy" if done.returncode == 0 else f"failed with {done.returncode}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
