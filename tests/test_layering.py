"""The map of ARCHITECTURE.md holds: which room imports which; what must start quickly never compiles."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "hopscope"
MODULES = sorted(PACKAGE.rglob("*.py"))
KERNELS = [path for path in MODULES if path.stem.endswith("_kernel")]

MAY_IMPORT: dict[str, set[str]] = {
    "base": set(),
    "memory": {"base"},
    "wire": {"base"},
    "settings": {"base", "wire.address", "wire.dialect"},
    "capture": {"base", "settings", "wire"},
    "bpf": {"base", "capture.errors", "capture.interface", "detect", "settings", "wire"},
    "switch": {"base", "bpf", "capture", "direct", "settings", "wire"},
    "rdma": {"base", "memory", "wire"},
    "direct": {"base", "memory", "rdma", "wire"},
    "detect": {"base", "memory", "settings", "wire"},
    "labels": {"base", "memory", "settings", "wire"},
    "control": {
        "base", "capture.errors", "capture.lldp", "detect.links", "labels", "memory", "settings", "switch",
        "wire",
    },
    "history": {"base", "detect", "memory", "settings", "wire"},
    "lake": {"base", "detect", "history", "memory", "settings", "wire"},
    "cluster": {
        "base", "detect", "direct", "export.destination", "export.nats_access", "history",
        "lake", "memory", "present", "settings", "wire",
    },
    "naming": {"base", "memory", "settings", "wire.address"},
    "operators": {"base", "memory", "settings"},
    "present": {
        "base", "control.neighbours", "control.status", "control.topology", "detect", "history", "labels",
        "memory", "settings", "wire",
    },
    "export": {
        "base", "control.counters", "control.status", "detect", "direct.counters", "history", "labels",
        "memory", "naming.counters", "naming.interfaces", "operators", "present", "rdma.counters", "settings",
        "wire",
    },
    "dashboards": {"base"},
    "fabric": {"base", "labels", "settings", "wire"},
    "testbed": {"base", "capture", "fabric", "labels", "memory", "settings", "wire"},
    "library": {"base", "capture", "detect", "history", "present", "settings", "wire"},
    "serve": {
        "base", "bpf.wire_layout", "cluster", "control", "detect", "direct", "export", "history", "labels",
        "lake", "memory", "naming.counters", "operators", "present", "rdma", "settings", "wire",
    },
    "runtime": {
        "base", "bpf", "capture", "cluster", "control", "detect", "direct", "export", "fabric", "history",
        "labels", "lake", "memory", "naming", "present", "rdma", "serve", "settings", "switch.clock",
        "testbed", "wire",
    },
    "cli": {
        "base", "capture", "cluster", "dashboards", "detect", "direct", "export", "fabric", "history",
        "labels", "lake", "library.samples", "memory", "operators", "present", "rdma", "runtime", "settings",
        "switch", "testbed", "wire",
    },
    "__init__": {"base", "detect", "library", "settings"},
    "__main__": {"cli"},
}  # fmt: skip
"""Room to what else it may import: rooms, or single modules of them."""
KERNEL_MAY_IMPORT = ("jit", "fields", "layout", "params", "rules", "records", "reasons", "versions")


@cache
def parsed(path: Path) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """All import statements of a file, and those of its top level."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = list(_imports(tree.body))
    return found, [node for node in found if node.col_offset == 0]


def _imports(block: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Import statements of a block and of the blocks in it; expressions hold none."""
    for node in block:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from _imports(getattr(node, name, []))


@cache
def imported(path: Path, everything: bool = True) -> tuple[str, ...]:
    """Modules of the package that a file imports, as `wire.records`; `everything`: also inside functions."""
    return tuple(_imported(path, everything))


def _imported(path: Path, everything: bool) -> Iterator[str]:
    package = path.relative_to(PACKAGE).parent.parts
    nodes, top = parsed(path)
    for node in nodes if everything else top:
        if isinstance(node, ast.ImportFrom) and node.level:
            base = [*package[: len(package) - node.level + 1], *(node.module or "").split(".")]
            prefix = ".".join(part for part in base if part)
            for name in node.names:
                module = f"{prefix}.{name.name}" if prefix else name.name
                yield module if _is_module(module) else prefix
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "hopscope":
            yield (node.module or "").removeprefix("hopscope").lstrip(".")
        elif isinstance(node, ast.Import):
            yield from (
                n.name.removeprefix("hopscope.") for n in node.names if n.name.startswith("hopscope.")
            )


@cache
def _is_module(dotted: str) -> bool:
    path = PACKAGE.joinpath(*dotted.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def room_of(path: Path) -> str:
    """The folder below the package that a module is in; the module's own name at the top."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def violations(modules: Iterable[Path], rules: dict[str, set[str]]) -> list[str]:
    """Imports that no rule allows, and modules without a rule."""
    found = []
    for path in modules:
        room, name = room_of(path), path.relative_to(PACKAGE)
        if room not in rules:
            found.append(f"{name} is in no room with a rule")
            continue
        allowed = rules[room] | {room}
        found += [
            f"{name} imports {module}"
            for module in imported(path)
            if module and not any(module == other or module.startswith(f"{other}.") for other in allowed)
        ]
    return found


def test_rooms_import_what_the_map_allows() -> None:
    """A module imports its own room, and what the rule of its room names."""
    assert not (found := violations(MODULES, MAY_IMPORT)), "\n".join(found)


def test_a_module_without_a_rule_is_found() -> None:
    """A new room, or a module at the top of the package, fails until it has a rule."""
    rules = {room: allowed for room, allowed in MAY_IMPORT.items() if room != "labels"}
    found = violations(MODULES, rules)
    assert "labels/table.py is in no room with a rule" in found
    assert all(line.startswith("labels/") for line in found)


def test_an_import_upwards_is_found() -> None:
    """The check sees an import that a rule does not allow."""
    rules = MAY_IMPORT | {"capture": {"base", "wire"}}
    assert "capture/sockets.py imports settings.listen" in violations(MODULES, rules)


def test_no_room_is_in_a_circle() -> None:
    """Rules have a top and a bottom: taking away rooms that import nothing more leaves none."""
    rules = {room: {one.split(".")[0] for one in allowed} for room, allowed in MAY_IMPORT.items()}
    while rules:
        bottom = {room for room, allowed in rules.items() if not allowed & rules.keys()}
        assert bottom, f"a circle among {', '.join(sorted(rules))}"
        rules = {room: allowed for room, allowed in rules.items() if room not in bottom}


def test_no_module_is_in_a_circle() -> None:
    """Modules import each other in one direction, inside a room too."""
    names = {path: ".".join(path.relative_to(PACKAGE).with_suffix("").parts) for path in MODULES}
    edges = {name: set(imported(path)) & set(names.values()) - {name} for path, name in names.items()}
    while edges:
        bottom = {name for name, others in edges.items() if not others & edges.keys()}
        assert bottom, f"a circle among {', '.join(sorted(edges))}"
        edges = {name: others for name, others in edges.items() if name not in bottom}


def test_the_top_of_the_package_is_empty() -> None:
    """Nothing lives beside the rooms but the package itself and `python -m hopscope`."""
    assert {path.name for path in PACKAGE.glob("*.py")} == {"__init__.py", "__main__.py"}


def test_few_modules_import_numba() -> None:
    """The compiler's policy, what speeds it up, and its decorators."""
    importers = [
        path.relative_to(PACKAGE).as_posix()
        for path in MODULES
        for node in parsed(path)[0]
        if (isinstance(node, ast.Import) and any(name.name.split(".")[0] == "numba" for name in node.names))
        or (isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").startswith("numba"))
    ]
    assert set(importers) == {"base/kernels/compiler.py", "base/kernels/frontend.py", "base/kernels/jit.py"}


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_kernels_import_only_what_the_cache_key_covers(path: Path) -> None:
    """The cache is keyed by kernels, layouts, records and reasons: a kernel may depend on nothing else."""
    for module in imported(path):
        last = module.rsplit(".", 1)[-1]
        assert last in KERNEL_MAY_IMPORT or last.endswith("_kernel"), f"{path.name} imports {module}"


def test_kernels_are_imported_where_they_are_used() -> None:
    """Outside of kernels no module imports one at its top level: importing a room never starts Numba."""
    wrong = [
        f"{path.relative_to(PACKAGE)} imports {module}"
        for path in MODULES
        if path not in KERNELS
        for module in imported(path, everything=False)
        if module.endswith("_kernel") or module == "base.kernels.jit"
    ]
    assert not wrong, "\n".join(wrong)


def test_kernels_are_listed_for_the_type_checker() -> None:
    """Kernels are typed by the compiler; the list of those that are checked leniently is complete."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lenient = next(one for one in settings["tool"]["mypy"]["overrides"] if "disallow_untyped_defs" in one)
    listed = set(lenient["module"]) - {
        "hopscope.base.kernels.compiler",
        "hopscope.base.kernels.frontend",
        "hopscope.base.kernels.jit",
    }
    kernels = {"hopscope." + ".".join(path.relative_to(PACKAGE).with_suffix("").parts) for path in KERNELS}
    assert listed == kernels


HEAVY = ("numba", "llvmlite", "fastapi", "duckdb", "uvicorn", "pandas", "polars", "pyarrow")


def loaded_by(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    "code",
    [
        "import hopscope; hopscope.read; hopscope.detect_events; hopscope.open",
        "from typer.main import get_command; from hopscope.cli.application import build;"
        "root = get_command(build());"
        "assert all(root.get_command(None, name) for name in root.list_commands(None))",
        "from typer.testing import CliRunner; from hopscope.cli.application import build;"
        "assert CliRunner().invoke(build(), ['version']).exit_code == 0",
        "import hopscope.runtime.supervisor.run, hopscope.runtime.pipeline.steps",
    ],
)
def test_starting_imports_nothing_heavy(code: str) -> None:
    """Help, version and the library's names come without the compiler, the web framework or the database."""
    assert loaded_by(code) == set()


def test_decoding_a_small_capture_does_not_compile(tmp_path: Path) -> None:
    """`hopscope decode` of a small file takes uncompiled kernels: Numba is not even imported."""
    capture = tmp_path / "reports.pcap"
    code = f"""
from hopscope.capture.pcap.reader import PcapWriter
from hopscope.runtime.warmup import _encode
from hopscope.wire.records import Link
with PcapWriter({str(capture)!r}) as writer:
    writer.write(_encode(Link.ETHERNET))
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    decode = f"""
from hopscope.cli.application import build
from typer.testing import CliRunner
result = CliRunner().invoke(build(), ["decode", {str(capture)!r}, "--format", "json"])
assert result.exit_code == 0, result.output
assert result.output.count('"packet"') == 4, result.output
"""
    assert loaded_by(decode) == set()


def test_fixtures_of_a_package_end_with_it() -> None:
    """In a folder without __init__.py, pytest takes `scope="package"` for the session: a process that such a
    fixture starts would run, and compute, until all tests are done.
    """
    users = [path for path in (ROOT / "tests").rglob("conftest.py") if 'scope="package"' in path.read_text()]
    assert users
    missing = [
        str(path.parent.relative_to(ROOT)) for path in users if not path.with_name("__init__.py").exists()
    ]
    assert not missing, f"no __init__.py in {missing}"
