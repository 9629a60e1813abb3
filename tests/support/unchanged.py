"""`pytest --unchanged` skips tests that passed here and depend on nothing that has changed since.

A test depends on its file, on all that this imports directly or not (statements anywhere in a file, modules
that a string names), on the `conftest.py` files above it, packages, settings of pytest, and the environment.
A module that looks up others or files when it runs depends on its whole folder; one that starts processes, on
the whole package.  A test file that starts processes or reads files always runs.

What has passed is kept beside the compiled kernels, in a file per key.  A test that fails deletes its file.
"""

from __future__ import annotations

import ast
import hashlib
import os
import platform
import re
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from importlib.metadata import distributions
from pathlib import Path

import pytest

KEEP_SECONDS = 30 * 86_400
_ALWAYS_RUN = re.compile(
    r"\b(subprocess|multiprocessing|Popen|fork|__file__)\b|\b(shared|tool|browser|redis_server):"
)
"""In a test, or in what tests share: it starts processes or reads files."""
_LOOKS_UP = re.compile(r"\b(import_module|__import__|__file__|importlib|plain\.load)\b")
_STARTS = re.compile(r"(import|from) (subprocess|multiprocessing|concurrent)\b|\bos\.fork")
_ENVIRONMENT = re.compile(r"HOPSCOPE_|NUMBA_|PYTHON(OPTIMIZE|WARNINGS)")
_MODULE = re.compile(r"hopscope(\.\w+)+")


class Dependencies:
    """What the test files of a project depend on."""

    def __init__(self, root: Path) -> None:
        self._root, self._package = root, root / "src" / "hopscope"
        self._tests = root / "tests"
        self._homes = [root / "src", self._tests, root / "bench"]
        self._imports = cache(self._imports_of)
        packages = sorted(f"{each.name} {each.version}" for each in distributions())
        switches = sorted(f"{name}={value}" for name, value in os.environ.items() if _ENVIRONMENT.match(name))
        self._surroundings = "\n".join([sys.version, platform.platform(), *packages, *switches]).encode()

    def key(self, test: Path) -> str | None:
        """Changes with all that a test file depends on; None if it must always run."""
        conftests = {folder / "conftest.py" for folder in test.parents if folder.is_relative_to(self._tests)}
        always = self._tests / "conftest.py"  # what its fixtures use is in no key: who uses them always runs
        files = self._closure({test} | {path for path in conftests - {always} if path.is_file()})
        for file in files:
            if not file.is_relative_to(self._package) and _ALWAYS_RUN.search(file.read_text("utf-8")):
                return None
        digest = hashlib.blake2b(self._surroundings, digest_size=16)
        for file in (self._root / "pyproject.toml", always, *sorted(files)):
            content = hashlib.blake2b(file.read_bytes()).hexdigest()
            digest.update(f"{file.relative_to(self._root)} {content}\n".encode())
        return digest.hexdigest()

    def _closure(self, found: set[Path]) -> set[Path]:
        ahead = list(found)
        while ahead:
            new = self._imports(ahead.pop()) - found
            found |= new
            ahead += new
        return found

    def _imports_of(self, path: Path) -> set[Path]:
        if path.suffix != ".py" or path == self._package / "__init__.py":  # which looks up what it offers
            return set()
        source, found = path.read_text("utf-8"), set()
        if path.is_relative_to(self._package):
            if _STARTS.search(source):
                found |= _tree(self._package)
            elif _LOOKS_UP.search(source):
                found |= _tree(path.parent)
        home = next((home for home in self._homes if path.is_relative_to(home)), path.parent)
        for name in _names(ast.parse(source), path.relative_to(home).parent.parts):
            found |= self._modules(name.split("."))
        return found

    def _modules(self, parts: list[str]) -> set[Path]:
        """Files of a module and of the packages that it is in; for the package itself, all of it."""
        if parts == [self._package.name]:
            return _tree(self._package)
        found = set()
        for home in self._homes:
            for depth in range(1, len(parts) + 1):
                base = home.joinpath(*parts[:depth])
                found |= {base / "__init__.py", base.with_name(f"{base.name}.py")}
        return {file for file in found if file.is_file()}


def _tree(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"}


def _names(tree: ast.Module, package: tuple[str, ...]) -> Iterator[str]:
    """Dotted names of modules that a file imports or names, and of what it takes from them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*above, *filter(None, [node.module])])
            yield from [module, *(f"{module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _MODULE.fullmatch(node.value):
            yield node.value


class Unchanged:
    """A plugin of pytest: leaves out what passed with the same key, and notes what passes."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._dependencies, self._folder, self._left_out = Dependencies(root), folder, 0
        self._keys: dict[str, str] = {}
        self._outcomes: defaultdict[str, set[str]] = defaultdict(set)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Deselect tests that have passed, but those marked `e2e`."""
        key, passed, kept = cache(self._dependencies.key), cache(self._passed), []
        for item in items:
            if not item.get_closest_marker("e2e") and (found := key(item.path)):
                self._keys[item.nodeid] = found
                if item.nodeid in passed(found):
                    continue
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
