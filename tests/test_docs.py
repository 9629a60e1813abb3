"""The documentation names everything that the program has, links to what exists, and its examples run."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def _program(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    return _program("reference")


@pytest.mark.parametrize(
    "page",
    [
        "settings.md",
        "counters.md",
        "reject-reasons.md",
        "formats.md",
        "events.md",
        "records.md",
        "commands.md",
        "event-block.avsc",
        "../../src/hopscope/cli/completion.json",
    ],
)
def test_reference_is_current(reference: ModuleType, page: str) -> None:
    """Every setting, counter, reason, event kind, record field and command is in docs/ as the code has it."""
    written = (ROOT / "docs" / "reference" / page).read_text()
    assert written == reference.PAGES[page](), "run: python docs/reference.py"


def test_every_name_has_a_meaning(reference: ModuleType) -> None:
    """No row of the reference has an empty last column: a name alone documents nothing."""
    empty = [
        f"{page}: {line}"
        for page in ("settings.md", "counters.md", "reject-reasons.md", "events.md", "commands.md")
        for line in reference.PAGES[page]().splitlines()
        if re.match(r"^\| `.*\|\s*\|$", line)
    ]
    assert not empty, "\n".join(empty)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link and picture of a page exists."""
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.kernel
@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "guides").glob("*.md")), ids=lambda p: p.stem)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python examples of a guide run, one after the other, in one namespace; those after `<!-- test: -->`
    have a test of their own.
    """
    found = re.findall(r"^(<!-- test: \w+ -->\n)?```python\n(.*?)^```", page.read_text(), re.S | re.M)
    blocks = [code for tested, code in found if not tested]
    if not blocks:
        return
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["example"])
    namespace: dict[str, object] = {"__name__": "example"}
    for number, code in enumerate(blocks):
        exec(compile(code, f"{page.name}[{number}]", "exec"), namespace)


NEEDS = {"api": "jq", "redis": "redis-server", "wireshark": "tshark", "fabric-live": "iperf3"}
"""Programs that the transcripts of a page need."""


def _with_transcripts() -> Iterator[object]:
    for page in PAGES:
        text = page.read_text()
        if "<!-- run" in text:
            live = "background" in text or page.stem in NEEDS
            yield pytest.param(page, id=page.stem, marks=pytest.mark.e2e if live else ())


@pytest.mark.kernel
@pytest.mark.parametrize("page", list(_with_transcripts()))
def test_transcripts_are_what_commands_print(page: Path, tmp_path: Path) -> None:
    """The commands of a guide that are marked to be run print what the guide shows."""
    program = NEEDS.get(page.stem, "bash")
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    if page.stem == "fabric-live" and os.geteuid():
        pytest.skip("a fabric needs root")
    transcripts = _program("transcripts")
    with closing(transcripts.run(page.read_text(), tmp_path)) as blocks:
        for block in blocks:
            assert block.same, f"run: python docs/transcripts.py\n{block.printed}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documentation as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", "docs", ".", str(folder)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_site_needs_nothing_from_elsewhere(site: Path) -> None:
    """No page and no style sheet loads a script, a font, a picture or a style from another host."""
    loads = re.compile(
        r"""<(?:script|img|iframe|source|link)\b[^>]*?\b(?:src|srcset|href)=["'](?:https?:)?//[^"']*"""
        r"""|url\(["']?(?:https?:)?//[^)]*|@import\s+["'](?:https?:)?//[^"']*"""
    )
    found = [
        f"{path.relative_to(site)}: {match[0]}"
        for path in sorted(site.rglob("*"))
        if path.suffix in (".html", ".css")
        for match in loads.finditer(path.read_text())
    ]
    assert not found, "\n".join(found)


def test_site_has_every_page(site: Path) -> None:
    """Every page of the repository is in the site, and the start page leads to all of them."""
    missing = [p for p in PAGES if not (site / p.relative_to(ROOT).with_suffix(".html")).exists()]
    assert not missing
    start = (site / "docs" / "index.html").read_text()
    unreachable = [p.stem for p in PAGES if p.stem != "index" and f"{p.stem}.html" not in start]
    assert not unreachable


def test_headline_figures_are_results() -> None:
    """The headline figures of the measurements and of README.md are results of benchmarks."""
    from harness import headlines, tables

    folder = ROOT / "docs" / "measurements"
    results = tables.read(folder / "data")
    for page in (folder / "index.md", ROOT / "README.md"):
        expected = headlines.table(results, page.name == "README.md")
        assert expected in page.read_text(), "run: cd bench && python -m harness.page"


def test_tables_of_measurements_show_the_results() -> None:
    """The tables of every benchmark are what its results give: nobody has typed into them."""
    from harness import page, tables

    folder = ROOT / "docs" / "measurements"
    pages = {path: path.read_text() for path in folder.glob("*.md")}
    for name, rows in tables.read(folder / "data").items():
        expected = page.block(name, page.about_of(list(pages), name), rows)
        assert any(expected in text for text in pages.values()), f"{name}: cd bench && python -m harness.page"


def test_blocks_of_benchmarks_say_what_they_hide() -> None:
    """Every block of a page is of a benchmark that exists, and says what it measures and what it hides."""
    for page in sorted((ROOT / "docs" / "measurements").glob("*.md")):
        for name, text in re.findall(r"<!-- bench: (\w+) -->\n(.*?)<!-- end -->", page.read_text(), re.S):
            if name != "headlines":
                assert (ROOT / "bench" / f"{name}.py").exists(), name
                assert "**Measures** " in text, name
                assert "**Hides** " in text, name
