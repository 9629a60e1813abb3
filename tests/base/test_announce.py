"""Announced compilation: a line that changes on a terminal, lines or log records elsewhere, or nothing."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

import hopscope
from hopscope.base.kernels import announce, kernel_cache


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        """It is."""
        return True


@pytest.fixture(autouse=True)
def kept() -> Iterator[None]:
    """The notices of this process are as before."""
    before = list(kernel_cache.notices)
    kernel_cache.notices.clear()
    yield
    announce.disable()
    kernel_cache.notices[:] = before


def compile_three() -> None:
    """What the compiler says of three kernels."""
    for name in ("a", "b", "c"):
        kernel_cache.notify(name)
        kernel_cache.notify("")


def test_a_command_prints_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a terminal one line says what takes time."""
    announce.enable()
    compile_three()
    assert capsys.readouterr().err == (
        "hopscope: compiling the kernels, once for this version and processor (see `hopscope warmup`)\n"
    )


def test_the_library_logs(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    """The library prints nothing where stderr is no terminal: the line is a log record."""
    hopscope.announce_compilation()
    with caplog.at_level(logging.INFO, "hopscope"):
        compile_three()
    assert [record.getMessage() for record in caplog.records] == [
        "compiling the kernels, once for this version and processor (see `hopscope warmup`)"
    ]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("notebook", [False, True])
def test_a_line_that_changes(monkeypatch: pytest.MonkeyPatch, notebook: bool) -> None:
    """A terminal and a notebook show the number and name of the kernel; in the end the line is empty."""
    stream = io.StringIO() if notebook else Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    shell = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object()))
    monkeypatch.setitem(sys.modules, "IPython", shell if notebook else None)
    monkeypatch.setattr(announce, "_DELAY_SECONDS", -1.0)
    hopscope.announce_compilation()
    compile_three()
    lines = stream.getvalue().split("\r")
    assert "compiling the kernels, once for this version and processor: 3, c" in lines
    assert lines[-2:] == [" " * len(lines[-3]), ""]


def test_off(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Switched off, nothing is shown or logged."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    hopscope.announce_compilation()
    hopscope.announce_compilation(False)
    compile_three()
    assert (stream.getvalue(), caplog.records) == ("", [])
