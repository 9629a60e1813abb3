"""Reuse of results: what a test depends on runs it again, and nothing else does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import unchanged
from support.unchanged import Dependencies

FILES = {
    "src/hopscope/__init__.py": '"""A package."""\n',
    "src/hopscope/room/__init__.py": "",
    "src/hopscope/room/caller.py": "def run():\n    from .sum_kernel import add\n    return add(1, 2)\n",
    "src/hopscope/room/sum_kernel.py": (
        "from ..layout import ZERO\n\ndef add(a, b):\n    return a + b + ZERO\n"
    ),
    "src/hopscope/layout.py": "ZERO = 0\n",
    "src/hopscope/found/finder.py": "from importlib import import_module\n",
    "src/hopscope/found/thing.py": "",
    "src/hopscope/unused.py": "",
    "tests/conftest.py": (
        "from pathlib import Path\nfrom support.unchanged import Unchanged\n\n"
        "def pytest_configure(config):\n"
        "    config.pluginmanager.register(Unchanged(config.rootpath, config.rootpath / '.passed'))\n"
    ),
    "tests/support/expected.py": "THREE = 3\n",
    "tests/room/conftest.py": "",
    "tests/room/test_sum.py": (
        "import pytest\nfrom hopscope.room.caller import run\nfrom support.expected import THREE\n\n"
        "def test_sum():\n    assert run() == THREE\n\n@pytest.mark.e2e\ndef test_other():\n    pass\n"
    ),
    "pyproject.toml": (
        "[tool.pytest.ini_options]\npythonpath = ['tests', 'src']\nmarkers = ['e2e: processes']\n"
        "addopts = '--import-mode=importlib'\n"
    ),
}  # fmt: skip


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small project with a kernel, its caller, a helper and two tests."""
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    (tmp_path / "tests/support/unchanged.py").write_text(Path(unchanged.__file__).read_text())
    return tmp_path


def key(root: Path, name: str = "tests/room/test_sum.py", *, end_to_end: bool = False) -> str:
    return Dependencies(root).key(root / name, end_to_end=end_to_end)


@pytest.mark.parametrize(
    "name",
    [
        "src/hopscope/room/caller.py",
        "src/hopscope/room/sum_kernel.py",
        "src/hopscope/layout.py",
        "src/hopscope/room/__init__.py",
        "src/hopscope/__init__.py",
        "tests/support/expected.py",
        "tests/room/test_sum.py",
        "tests/room/conftest.py",
        "tests/conftest.py",
        "pyproject.toml",
    ],
)
def test_what_a_test_depends_on_changes_its_key(project: Path, name: str) -> None:
    """Imports inside functions, constants of constants, helpers, packages, fixtures, settings."""
    before = key(project)
    with (project / name).open("a") as file:
        file.write("# changed\n")
    assert key(project) != before


def test_what_it_does_not_depend_on_leaves_its_key(project: Path) -> None:
    """A module that nothing of it imports; whether a cache was written."""
    before = key(project)
    (project / "src/hopscope/unused.py").write_text("CHANGED = 1\n")
    assert key(project) == before


def test_environment_and_lookups_are_in_the_key(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds checks are other tests; a module that looks up others depends on its folder."""
    before = key(project)
    monkeypatch.setenv("NUMBA_BOUNDSCHECK", "1")
    checked = key(project)
    assert checked != before
    caller = project / "src/hopscope/room/caller.py"
    caller.write_text(f"import hopscope.found.finder\n{caller.read_text()}")
    finding = key(project)
    (project / "src/hopscope/found/thing.py").write_text("CHANGED = 1\n")
    assert len({before, checked, finding, key(project)}) == 4
    caller.write_text(f"import subprocess\n{caller.read_text()}")
    starting = key(project)
    (project / "src/hopscope/room/__pycache__").mkdir()
    (project / "src/hopscope/room/__pycache__/caller.cpython.pyc.140").touch()  # being written by another run
    assert key(project) == starting
    (project / "src/hopscope/unused.py").write_text("CHANGED = 1\n")
    assert key(project) != starting


@pytest.mark.parametrize("line", ["import subprocess", "HERE = __file__", "def test_x(shared: object): ..."])
def test_processes_and_files_depend_on_everything(project: Path, line: str) -> None:
    """In the test or in a helper."""
    for name in ("tests/support/expected.py", "tests/room/test_sum.py"):
        before = (project / name).read_text()
        (project / name).write_text(f"{before}{line}\n")
        assert key(project) == key(project, end_to_end=True)
        (project / name).write_text(before)
    assert key(project) != key(project, end_to_end=True)


@pytest.mark.parametrize(
    "name", ["src/hopscope/unused.py", "docs/page.md", "tests/room/test_other.py", "Makefile"]
)
def test_everything_is_every_file_of_the_project(project: Path, name: str) -> None:
    """Changed, new or gone; but nothing that is made from others, and each test file has a key of its own."""
    other = project / "tests/room/test_other.py"
    other.write_text("")
    before = key(project, end_to_end=True)
    assert key(project, "tests/room/test_other.py", end_to_end=True) != before
    made_files = ("src/hopscope/label.bpf.o", "src/hopscope/label.bpf-12ab.o.tmp", "src/hopscope/a.o.12.part")
    made_below = ("dist/wheel", "build/site.html", ".git/index", "src/hopscope/__pycache__/unused.pyc")
    for made in (*made_files, *made_below):
        (project / made).parent.mkdir(parents=True, exist_ok=True)
        (project / made).write_text("made")
    assert key(project, end_to_end=True) == before
    (project / name).parent.mkdir(exist_ok=True)
    (project / name).write_text("CHANGED = 1\n")
    changed = key(project, end_to_end=True)
    (project / name).unlink()
    assert len({before, changed, key(project, end_to_end=True)}) == (
        2 if name in ("docs/page.md", "Makefile") else 3
    )


def test_captures_beside_the_project_are_in_the_key(tmp_path: Path) -> None:
    """Tests that read them depend on everything."""
    root = tmp_path / "project"
    (root / "tests").mkdir(parents=True)
    (root / "tests/test_capture.py").write_text("def test_x(shared: object): ...\n")
    (root / "tests/conftest.py").touch()
    (root / "pyproject.toml").touch()
    before = key(root, "tests/test_capture.py")
    (tmp_path / "shared/captures").mkdir(parents=True)
    (tmp_path / "shared/captures/report.pcap").write_bytes(b"report")
    assert key(root, "tests/test_capture.py") != before


def run(root: Path, status: int | None = None) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"],
        cwd=root,
        env=os.environ
        | {
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # they take most of the time
            "PYTHONDONTWRITEBYTECODE": "1",  # it would be taken for that of a change in the same second
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert status in (None, done.returncode)
    return done.stdout


def test_what_passed_is_left_out_until_it_changes(project: Path) -> None:
    """Only after it passed; one marked `e2e` until any file changes. After a failure it runs again."""
    assert "2 passed" in run(project)
    assert "2 tests were not run: unchanged since they passed here" in run(project, status=0)
    (project / "src/hopscope/unused.py").write_text("CHANGED = 1\n")
    assert "1 passed" in run(project)
    kernel = project / "src/hopscope/room/sum_kernel.py"
    kernel.write_text(FILES["src/hopscope/room/sum_kernel.py"].replace("a + b", "a - b"))
    assert "1 failed, 1 passed" in run(project)
    assert "1 failed" in run(project)
    kernel.write_text(FILES["src/hopscope/room/sum_kernel.py"].replace("a + b", "b + a"))
    assert "2 passed" in run(project)
