"""Man pages: one for each command and one for the settings, which the tools of man pages accept."""

from __future__ import annotations

import importlib.util
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from hopscope.cli.application import COMMANDS
from hopscope.settings.collector import Settings
from hopscope.settings.configuration.file import walk

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def man(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all pages, as `make man` writes them."""
    spec = importlib.util.spec_from_file_location("man", ROOT / "docs" / "man.py")
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    folder = tmp_path_factory.mktemp("man")
    for path, text in program.pages().items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)
    return folder


def test_every_command_has_a_page(man: Path) -> None:
    """And no other."""
    names = {page.name for page in (man / "man1").iterdir()}
    assert names == {"hopscope.1", *(f"hopscope-{name}.1" for name in COMMANDS)}


def test_every_setting_is_in_the_page_of_the_file(man: Path) -> None:
    """With the path of its key."""
    text = (man / "man5/hopscope.toml.5").read_text().replace("\\", "")
    for key, _ in walk(Settings):
        above, _, last = key.rpartition(".")
        assert f".B {key}\n" in text or f".SS {key}" in text, (above, last)


def test_the_pages_are_clean(man: Path, tool: Callable[..., str]) -> None:
    """mandoc finds nothing to warn of."""
    files = sorted(map(str, man.rglob("*.[15]")))
    done = subprocess.run(
        [tool("mandoc"), "-Tlint", "-W", "warning", *files], capture_output=True, text=True, check=False
    )
    assert not done.stdout, done.stdout


def test_a_page_can_be_read(man: Path, tool: Callable[..., str]) -> None:
    """Subcommands with their options, as the help has them."""
    page = man / "man1/hopscope-config.1"
    done = subprocess.run([tool("mandoc"), "-Tascii", str(page)], capture_output=True, text=True, check=True)
    text = subprocess.run(["col", "-b"], input=done.stdout, capture_output=True, text=True, check=True).stdout
    assert "hopscope-config - Show, check and write settings" in text
    assert "hopscope config check [OPTIONS] [FILE]" in text
    assert "--connect" in text
