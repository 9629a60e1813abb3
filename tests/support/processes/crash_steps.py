"""Work on files that is killed before each of its steps: the first time before its first one, and so on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_SCRIPT = """
import os, shutil, sys
from pathlib import Path
{imports}

def counted(real):
    def step(*args, **more):
        global left
        left -= 1
        if left < 0:
            os._exit(9)
        return real(*args, **more)
    return step

root = Path(sys.argv[1])
for steps in range(60):
    folder = root / str(steps)
    shutil.copytree(root / "before", folder)
    if (child := os.fork()) == 0:
        left = steps
        os.fsync, Path.rename, Path.unlink = counted(os.fsync), counted(Path.rename), counted(Path.unlink)
        Path.replace = counted(Path.replace)
        {work}
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(steps, status, flush=True)
    if status != 9:
        break
"""


def crashes(root: Path, imports: str, work: str) -> list[Path]:
    """Copies of `root/before` in which `work`, a statement about `folder`, ended before its first step
    (fsync, rename, removal), before its second one, …; in the last one it was done.
    """
    command = [sys.executable, "-c", _SCRIPT.format(imports=imports, work=work), str(root)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    ends = [line.split() for line in done.stdout.splitlines()]
    assert ends[-1][1] == "0", done.stderr
    return [root / step for step, _ in ends]
