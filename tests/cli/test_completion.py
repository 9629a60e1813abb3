"""Completion in shells: what may follow, in the form that each shell's script takes, and what it imports."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from hopscope.cli import completion
from hopscope.wire.dialect import DIALECTS

EVENTS = ("query", "events")


def bash(line: str) -> list[str]:
    """Candidates at the end of a line."""
    words = line.split(" ")
    return _answered("bash", COMP_WORDS=line, COMP_CWORD=str(len(words) - 1)).splitlines()


def _answered(shell: str, **variables: str) -> str:
    """What the shell's script reads, from a process that must import neither commands nor Typer."""
    code = (
        "import sys; from hopscope.cli import main; main();"
        "print(*sorted({'typer', 'numpy', 'pydantic', 'numba'} & sys.modules.keys()), file=sys.stderr)"
    )
    environment = {**os.environ, completion.VARIABLE: f"complete_{shell}", **variables}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stderr == "\n"
    return done.stdout


@pytest.mark.parametrize(
    ("words", "incomplete", "expected"),
    [
        ((), "qu", ["query"]),
        (("query",), "s", ["summary", "sql"]),
        (EVENTS, "--ki", ["--kind"]),
        ((*EVENTS, "--kind"), "ra", ["raised"]),
        ((*EVENTS, "-k"), "ra", ["raised"]),
        (EVENTS, "--kind=ra", ["--kind=raised"]),
        ((*EVENTS, "--kind", "raised", "--metric"), "queue_o", ["queue_occupancy"]),
        ((*EVENTS, "--format"), "", ["json", "table", "csv"]),
        ((*EVENTS, "--format", "json"), "--form", []),
        ((*EVENTS, "--kind", "raised"), "--kin", ["--kind"]),
        (("decode", "--kind"), "", ["int", "drop", "queue", "inner", "error"]),
        (("decode", "x.pcap", "--dialect"), "", [*DIALECTS, "auto"]),
        (("decode",), "", []),
        (("collect", "--set"), "serve.po", ["serve.port="]),
        (("simulate", "-t"), "leaf", ["leaf-spine:2x2"]),
        (("simulate", "--fault"), "lossy", ["lossy-port@"]),
        (("query", "distributions", "--measure"), "hop", ["hop_latency"]),
        (("warmup", "sink"), "dir", ["direct"]),
        (("label", "decode", "--port"), "", []),
        (("nothing",), "", []),
    ],
)
def test_candidates(words: tuple[str, ...], incomplete: str, expected: list[str]) -> None:
    """Commands, options and their values; an option that was given is not offered again, unless it may be."""
    table = completion.load()
    assert [word for word, _ in completion.candidates(table, list(words), incomplete)] == expected


def test_bash() -> None:
    """One word per line; `=` is a word of its own; a quote that is still open is no error."""
    assert bash("hopscope query events --kind ra") == ["raised"]
    assert bash("hopscope query events --kind = ra") == ["raised"]
    assert bash("hopscope query sql 'SELECT ") == []


def test_zsh_and_fish() -> None:
    """With help, quoted for zsh; without a candidate, files are offered."""
    assert _answered("zsh", _TYPER_COMPLETE_ARGS="hopscope simulate --top") == (
        '_arguments \'*: :(("--topology":"fat-tree\\\\:K, leaf-spine\\\\:LxS[xHOSTS], paper (4-4-4), '
        "or your own, FILE.toml.\"))'\n"
    )
    assert _answered("zsh", _TYPER_COMPLETE_ARGS="hopscope decode ") == "_files\n"
    found = _answered(
        "fish", _TYPER_COMPLETE_ARGS="hopscope top --once --k", _TYPER_COMPLETE_FISH_ACTION="get-args"
    )
    assert found == "--kind\tOnly this kind of event. Repeatable.\n"
