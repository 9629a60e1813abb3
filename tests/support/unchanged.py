"""`pytest --unchanged` skips tests that passed here and depend on nothing that has changed since.

A test depends on its file, on all that this imports directly or not (statements anywhere in a file, modules
that it mentions), on the `conftest.py` files above it, packages, settings of pytest, and the environment.
A module that looks up others or files when it runs depends on its whole folder; one that starts processes, on
the whole package.  A test that is marked `e2e`, starts processes or reads files depends on every file of the
project, on the captures beside it, and on the packages of the system.

What has passed is kept beside the compiled kernels, in a file per key.  A test that fails deletes its file.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache, cached_property
from importlib.metadata import distributions
from pathlib import Path

import pytest

KEEP_SECONDS = 30 * 86_400
_READS_ANY = re.compile(
    r"\b(subprocess|multiprocessing|Popen|fork|__file__)\b|\b(shared|tool|browser|namespace|redis_server):"
)
"""In a test, or in what tests share: it starts processes or reads files."""
_LOOKS_UP = re.compile(r"\b(import_module|__import__|__file__|importlib|plain\.load)\b")
_STARTS = re.compile(r"(import|from) (subprocess|multiprocessing|concurrent)\b|\bos\.fork")
_ENVIRONMENT = re.compile(r"HOPSCOPE_|NUMBA_|PYTHON(OPTIMIZE|WARNINGS)")
_MODULE = re.compile(r"\bhopscope(?:\.\w+)+")
_IMPORT = re.compile(r"^[ \t]*(?:import +([^\n]+)|from +([.\w]+) +import +(\([^)]*\)|[^\n]+))", re.MULTILINE)
_DOTTED = re.compile(r"[\w.]+")
_HOMES = ("src/", "tests/", "bench/")
_MADE = {"build", "dist", "out", "__pycache__"}
"""Folders that hold no sources, besides hidden ones."""
_MADE_FILES = (".o", ".part", ".tmp")
"""Ends of names of files that are made from sources; some are gone a moment later."""
_SYSTEM = Path("/var/lib/dpkg/status")
"""Changes when a tool is installed, upgraded or removed."""


class Dependencies:
    """What the test files of a project depend on.

    Files are names relative to the project's folder: with paths, this took 9 s of a processor in each lane.
    """

    def __init__(self, root: Path) -> None:
        self._root, self._package = root, "src/hopscope/"
        self._files = dict.fromkeys(sorted(_sources(str(root), "")))
        self._imports, self._modules = cache(self._imports_of), cache(self._modules_of)
        self._text, self._line = cache(self._text_of), cache(self._line_of)
        self._reads_any = cache(self._reads)
        switches = sorted(f"{name}={value}" for name, value in os.environ.items() if _ENVIRONMENT.match(name))
        self._surroundings = "\n".join([sys.version, platform.platform(), *_packages(), *switches]).encode()

    def key(self, test: Path, *, end_to_end: bool = False) -> str:
        """Changes with all that a test file depends on; `end_to_end`: its tests that are marked `e2e`."""
        name = test.relative_to(self._root).as_posix()
        if end_to_end:
            return self._of_everything(name)
        folders = [*map(str, test.relative_to(self._root).parents)][:-2]  # those in tests/
        conftests = {file for folder in folders if (file := f"{folder}/conftest.py") in self._files}
        outside = self._closure({name} | conftests, lambda file: not file.startswith(self._package))
        if any(map(self._reads_any, outside)):
            return self._of_everything(name)
        files = self._closure(outside | set().union(*map(self._imports, outside)))
        top = "tests/conftest.py"  # whoever uses its fixtures depends on everything
        return self._of(["pyproject.toml", top, *sorted(files)])

    def _of(self, files: Iterable[str], *more: str) -> str:
        lines = [*more, *map(self._line, files)]
        return hashlib.blake2b("\n".join(lines).encode() + self._surroundings, digest_size=16).hexdigest()

    def _of_everything(self, test: str) -> str:
        return self._of([], test, self._everything)

    @cached_property
    def _everything(self) -> str:
        outside = [_SYSTEM, *sorted((self._root.parent / "shared" / "captures").rglob("*"))]
        states = [(file, file.stat()) for file in outside if file.is_file()]
        versions = [f"{file} {state.st_size} {state.st_mtime_ns}" for file, state in states]
        return self._of(self._files, f"user {os.geteuid()}", *versions)

    def _closure(self, found: set[str], goes_on: Callable[[str], bool] = lambda file: True) -> set[str]:
        """These files, and those that they import, directly or not, of which `goes_on` is true."""
        ahead = list(found)
        while ahead:
            new = {file for file in self._imports(ahead.pop()) - found if goes_on(file)}
            found |= new
            ahead += new
        return found

    def _imports_of(self, file: str) -> set[str]:
        inside = file.startswith(self._package)
        if not file.endswith(".py") or file == f"{self._package}__init__.py":  # which looks up what it offers
            return set()
        source, found = self._text(file), set()
        folder = file.rpartition("/")[0]
        if inside and _STARTS.search(source):
            found |= self._below(self._package)
        elif inside and _LOOKS_UP.search(source):
            found |= self._below(f"{folder}/")
        home = next((home for home in _HOMES if file.startswith(home)), f"{folder}/")
        parts = tuple(filter(None, folder.removeprefix(home.rstrip("/")).split("/")))
        return found.union(*map(self._modules, set(_names(source, parts))))

    def _modules_of(self, name: str) -> set[str]:
        """Files of a module and of the packages that it is in; for the package itself, all of it."""
        parts = name.split(".")
        if parts == ["hopscope"]:
            return self._below(self._package)
        bases = [home + "/".join(parts[: depth + 1]) for home in _HOMES for depth in range(len(parts))]
        files = {base + end for base in bases for end in ("/__init__.py", ".py")}
        return files & self._files.keys()

    def _below(self, folder: str) -> set[str]:
        return {file for file in self._files if file.startswith(folder)}

    def _text_of(self, file: str) -> str:
        return (self._root / file).read_text("utf-8")

    def _line_of(self, file: str) -> str:
        digest = hashlib.blake2b((self._root / file).read_bytes(), digest_size=16)
        return f"{file} {digest.hexdigest()}"

    def _reads(self, file: str) -> bool:
        return _READS_ANY.search(self._text(file)) is not None


@cache
def _packages() -> list[str]:
    """Installed packages with their versions."""
    return sorted(f"{each.name} {each.version}" for each in distributions())


def _sources(folder: str, prefix: str) -> Iterator[str]:
    """Names of the files of a project but those that are made from others."""
    for entry in os.scandir(folder):
        if entry.is_dir():
            if entry.name[0] != "." and entry.name not in _MADE:
                yield from _sources(entry.path, f"{prefix}{entry.name}/")
        elif entry.is_file() and not entry.name.endswith(_MADE_FILES):
            yield prefix + entry.name


def _names(source: str, package: tuple[str, ...]) -> Iterator[str]:
    """Dotted names of modules that a file imports or mentions, and of what it takes from them.

    A few other words are among them: syntax trees would be exact, but those of all files take seconds.
    """
    for whole, origin, taken in _IMPORT.findall(source):
        yield from _DOTTED.findall(whole)
        if origin:
            name = origin.lstrip(".")
            above = package[: len(package) - (len(origin) - len(name)) + 1] if name != origin else ()
            module = ".".join([*above, *filter(None, [name])])
            yield from [module, *(f"{module}.{word}" for word in _DOTTED.findall(taken))]
    yield from _MODULE.findall(source)


class Unchanged:
    """A plugin of pytest: leaves out what passed with the same key, and notes what passes."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._dependencies, self._folder, self._left_out = Dependencies(root), folder, 0
        self._keys: dict[str, str] = {}
        self._outcomes: defaultdict[str, set[str]] = defaultdict(set)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Deselect tests that have passed."""
        key, passed, kept = cache(self._dependencies.key), cache(self._passed), []
        for item in items:
            found = key(item.path, end_to_end=item.get_closest_marker("e2e") is not None)
            self._keys[item.nodeid] = found
            if item.nodeid not in passed(found):
                kept.append(item)
        self._left_out, items[:] = len(items) - len(kept), kept

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the outcomes of a test's set-up, call and tear-down."""
        self._outcomes[report.nodeid].add(report.outcome)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Note what has passed; nothing left to run is no failure."""
        if session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self._left_out:
            session.exitstatus = pytest.ExitCode.OK
        self._folder.mkdir(parents=True, exist_ok=True)
        for name, key in self._keys.items():
            if self._outcomes[name] == {"passed"}:
                with (self._folder / key).open("a") as passed:
                    passed.write(name + "\n")
        for name, key in self._keys.items():
            if "failed" in self._outcomes[name]:
                (self._folder / key).unlink(missing_ok=True)
        for file in self._folder.iterdir():
            if file.stat().st_mtime < time.time() - KEEP_SECONDS:
                file.unlink(missing_ok=True)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say how many were left out."""
        terminalreporter.write_line(f"{self._left_out} tests were not run: unchanged since they passed here")

    def _passed(self, key: str) -> set[str]:
        file = self._folder / key
        return set(file.read_text().splitlines()) if file.is_file() else set()
