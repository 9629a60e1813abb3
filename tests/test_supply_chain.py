"""What is installed with Hopscope: bounded, pinned with hashes, and named in the wheel."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCK = (ROOT / "requirements.lock").read_text()
PINNED = re.findall(r"^([\w.-]+)==([^\s;]+)", LOCK, re.MULTILINE)
"""(Name, version); of some names, a version for each version of Python."""

OF_THE_LAKE = {
    line for line in PROJECT["project"]["optional-dependencies"]["lake"] if line.startswith("duckdb")
}
"""DuckDB and its extensions, which fit one version each."""


@pytest.fixture(scope="module")
def build() -> ModuleType:
    """The build hook."""
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_requirement_has_both_bounds() -> None:
    """Neither a version with known holes nor one that nobody has tried is installed."""
    groups = [
        PROJECT["build-system"]["requires"],
        PROJECT["project"]["dependencies"],
        *PROJECT["project"]["optional-dependencies"].values(),
    ]
    for requirement in map(Requirement, (line for group in groups for line in group)):
        if str(requirement) not in OF_THE_LAKE:
            assert {bound.operator for bound in requirement.specifier} == {">=", "<"}, requirement


def test_the_extra_lake_fits_what_is_always_installed() -> None:
    """DuckDB and its extensions have one version, which the bounds of DuckDB allow, as they do the newest:
    both `hopscope[lake]` and plain `hopscope` can be installed.
    """
    versions = {str(bound) for line in OF_THE_LAKE for bound in Requirement(line).specifier}
    assert len(OF_THE_LAKE) == 4
    (pinned,) = versions
    (always,) = (r for r in map(Requirement, PROJECT["project"]["dependencies"]) if r.name == "duckdb")
    assert always.specifier.contains(pinned.removeprefix("=="))
    assert always.specifier.contains("2.0.0")
    assert next(version for name, version in PINNED if name == "duckdb")  # the lock, of the newest


def test_the_lock_fits_the_project() -> None:
    """Every dependency is pinned to a version that its bounds allow; `make lock` renews the file."""
    for requirement in map(Requirement, PROJECT["project"]["dependencies"]):
        pinned = [version for name, version in PINNED if name == canonicalize_name(requirement.name)]
        assert pinned, f"{requirement.name} is not in requirements.lock: make lock"
        for version in pinned:
            assert requirement.specifier.contains(version), f"{requirement}, locked {version}: make lock"


def test_everything_in_the_lock_has_hashes() -> None:
    """pip refuses a file with other contents: each pin is followed by hashes of its files."""
    blocks = re.split(r"^(?=[\w.-]+==)", LOCK, flags=re.MULTILINE)[1:]
    assert len(blocks) == len(PINNED)
    for block in blocks:
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", block), block.splitlines()[0]
    assert "://" not in LOCK


def test_the_bill_of_materials_names_what_is_locked(build: ModuleType) -> None:
    """Every pin is a component, every component is reached from Hopscope, no reference is open."""
    bill = build.bill_of_materials("1.2.3", "Apache-2.0", LOCK)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert [(one["name"], one["version"]) for one in bill["components"]] == PINNED
    needs = {one["ref"]: one["dependsOn"] for one in bill["dependencies"]}
    reached, waiting = set[str](), ["pkg:pypi/hopscope@1.2.3"]
    while waiting:
        ref = waiting.pop()
        if ref not in reached:
            reached.add(ref)
            waiting += needs[ref]
    assert reached == needs.keys()
    direct = {ref.removeprefix("pkg:pypi/").split("@")[0] for ref in needs["pkg:pypi/hopscope@1.2.3"]}
    wanted = {canonicalize_name(Requirement(line).name) for line in PROJECT["project"]["dependencies"]}
    assert {canonicalize_name(name) for name in direct} == wanted


def test_the_wheel_carries_its_bill_of_materials(tmp_path: Path) -> None:
    """In the folder that PEP 770 names, and again the same for the same sources."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if "/sboms/" in name]
        assert re.fullmatch(r"hopscope-[\w.]+\.dist-info/sboms/hopscope\.cdx\.json", name)
        bill = json.loads(archive.read(name))
    assert bill["metadata"]["component"]["version"] == PROJECT["project"]["version"]
    assert len(bill["components"]) == len(PINNED)
