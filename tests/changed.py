"""Prints the tests of what has changed: since the last commit on the main branch, or in it if nothing has.

pytest $(python tests/changed.py)
"""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def git(*words: str) -> list[str]:
    """Lines that git prints; none if it cannot answer."""
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def changed() -> list[str]:
    """Files that differ from the main branch; those of the last commit if none do."""
    base = next(iter(git("merge-base", "HEAD", "origin/main") or ["HEAD"]))
    files = [*git("diff", "--name-only", base), *git("ls-files", "--others", "--exclude-standard")]
    return files or git("diff", "--name-only", "HEAD~1")


def tests_of(file: str) -> str | None:
    """The test file itself, or the folder of tests of a room."""
    path = Path(file)
    parts = path.parts
    if parts[0] == "tests" and path.name.startswith("test_"):
        return file
    if parts[:2] == ("src", "hopscope") and len(parts) > 3:
        for depth in range(len(parts) - 1, 2, -1):
            if (ROOT / "tests" / Path(*parts[2:depth])).is_dir():
                return str(Path("tests", *parts[2:depth]))
    return None


if __name__ == "__main__":
    found = {test for file in changed() if (test := tests_of(file)) and (ROOT / test).exists()}
    print(" ".join(sorted(found | {"tests/test_layering.py"})))
