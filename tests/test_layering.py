"""The map of ARCHITECTURE.md holds: which room imports which; what must start quickly never compiles."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "hopscope"
MODULES = sorted(PACKAGE.rglob("*.py"))
KERNELS = [path for path in MODULES if path.stem.endswith("_kernel")]

EVERYWHERE = {
    "stop",
    "counter",
    "errors",
    "jit",
    "config",
    "config_base",
    "config_direct",
    "config_export",
    "config_label",
    "config_sink",
}
"""Small modules without a room of their own, which import no room."""
MAY_IMPORT: dict[str, set[str]] = {
    "wire": set(),
    "memory": set(),
    "capture": {"wire"},
    "detect": {"wire", "memory", "metrics"},
    "history": {
        "detect.distribution",
        "detect.distribution_reader",
        "detect.quantiles",
        "detect.records",
        "detect.sink.records",
        "memory",
        "names",
        "wire.address",
        "wire.records",
    },
    "export": {
        "detect.as_json",
        "detect.distribution_reader",
        "detect.flow_walk",
        "detect.quantiles",
        "detect.records",
        "detect.sink.records",
        "detect.sink.rings",
        "log",
        "wire.address",
        "memory",
        "names",
        "history.files",
        "history.journal_file",
        "wire.records",
    },
    "fabric": {"wire", "capture"},
    "rdma": {"wire", "memory"},
    "direct": {"wire", "memory", "rdma"},
}
"""Room to what else it may import: rooms, or single modules of them. `serve` and `cli` may import all."""
KERNEL_MAY_IMPORT = ("jit", "layout", "rules", "records", "reasons")


def imported(path: Path, everything: bool = True) -> Iterator[str]:
    """Modules of the package that a file imports, as `wire.records`; `everything`: also inside functions."""
    package = path.relative_to(PACKAGE).parent.parts
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree) if everything else tree.body:
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


def _is_module(dotted: str) -> bool:
    path = PACKAGE.joinpath(*dotted.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_rooms_import_what_the_map_allows(room: str) -> None:
    """A room imports itself, the small common modules, and what its row of the map names."""
    allowed = MAY_IMPORT[room] | EVERYWHERE | {room}
    wrong = [
        f"{path.relative_to(PACKAGE)} imports {module}"
        for path in MODULES
        if path.relative_to(PACKAGE).parts[0] == room
        for module in imported(path)
        if module and not any(module == one or module.startswith(f"{one}.") for one in allowed)
    ]
    assert not wrong, "\n".join(wrong)


def test_common_modules_import_no_room() -> None:
    """What every room may import does not bring other rooms with it."""
    for name in EVERYWHERE:
        assert set(imported(PACKAGE / f"{name}.py")) <= EVERYWHERE, name


def test_only_jit_imports_numba() -> None:
    """One module owns the compiler's policy."""
    importers = [
        path.relative_to(PACKAGE).as_posix()
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.Import) and any(name.name.split(".")[0] == "numba" for name in node.names))
        or (isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").startswith("numba"))
    ]
    assert set(importers) == {"jit.py"}


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
        if module.endswith("_kernel") or module == "jit"
    ]
    assert not wrong, "\n".join(wrong)


def test_kernels_are_listed_for_mypy() -> None:
    """Kernels are typed by the compiler; the list of those that mypy takes leniently is complete."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lenient = next(one for one in settings["tool"]["mypy"]["overrides"] if "disallow_untyped_defs" in one)
    listed = {module for module in lenient["module"] if module != "hopscope.base.jit"}
    kernels = {"hopscope." + ".".join(path.relative_to(PACKAGE).with_suffix("").parts) for path in KERNELS}
    assert listed == kernels


HEAVY = ("numba", "llvmlite", "fastapi", "nicegui", "duckdb", "uvicorn", "pandas", "polars", "pyarrow")


def loaded_by(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    "code",
    [
        "import hopscope; hopscope.read; hopscope.detect_events; hopscope.open",
        "from hopscope.cli import build; build()",
        "from typer.testing import CliRunner; from hopscope.cli import build;"
        "assert CliRunner().invoke(build(), ['version']).exit_code == 0",
        "import hopscope.runtime.supervisor, hopscope.runtime.pipeline",
    ],
)
def test_starting_imports_nothing_heavy(code: str) -> None:
    """Help, version and the library's names come without the compiler, the web framework or the database."""
    assert loaded_by(code) == set()


def test_decoding_a_small_capture_does_not_compile(tmp_path: Path) -> None:
    """`hopscope decode` of a small file takes the scalar codec: Numba is not even imported."""
    capture = tmp_path / "reports.pcap"
    code = f"""
from hopscope.capture.pcap import Writer
from hopscope.warmup import _encode
from hopscope.wire.records import Link
with Writer({str(capture)!r}) as writer:
    writer.write(_encode(Link.ETHERNET))
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    decode = f"""
from hopscope.cli import build
from typer.testing import CliRunner
result = CliRunner().invoke(build(("decode",)), ["decode", {str(capture)!r}, "--format", "json"])
assert result.exit_code == 0, result.output
assert result.output.count('"packet"') == 4, result.output
"""
    assert loaded_by(decode) == set()
