"""Processors of workers: wrong ones are refused, and `check` says which are near an interface."""

from __future__ import annotations

from pathlib import Path

import pytest

from hopscope.base.errors import HopscopeError
from hopscope.base.process import affinity
from hopscope.runtime.checks import environment
from hopscope.runtime.processes.processors import check
from hopscope.settings.collector import Settings
from hopscope.settings.listen import ListenSettings


@pytest.mark.parametrize(
    ("processors", "workers", "problem"),
    [
        ((0, 0), 2, "found one twice, expected each once"),
        ((0, 1), 1, "found 2, expected 1, one for each of 1 worker"),
        ((0, 1), 2, "found 2, expected 3, one for each of 2 workers and their detector"),
        ((0, 1, 9), 2, "found 9, expected some of 0-3"),
        ((0, 1, 3), 2, ""),
        ((), 2, ""),
    ],
)
def test_wrong_processors(
    monkeypatch: pytest.MonkeyPatch, processors: tuple[int, ...], workers: int, problem: str
) -> None:
    """Twice, too few, too many, or not there."""
    monkeypatch.setattr(affinity, "allowed", lambda: {0, 1, 2, 3})
    settings = Settings(processors=processors, listen=(ListenSettings(workers=workers),))
    if not problem:
        check(settings)
        return
    with pytest.raises(HopscopeError, match=f"^processors: {problem}$"):
        check(settings)


@pytest.mark.parametrize(
    ("processors", "verdict"), [((), "advice"), ((1,), "advice"), ((2,), "good"), ((3,), "good")]
)
def test_check_names_the_processors_near_an_interface(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, processors: tuple[int, ...], verdict: str
) -> None:
    """With two nodes, unless all processors of the settings are those of the interface's node."""
    monkeypatch.setattr(affinity, "allowed", lambda: {0, 1, 2, 3})
    monkeypatch.setattr(affinity, "nodes", lambda: {0: {0, 1}, 1: {2, 3}})
    monkeypatch.setattr(affinity, "node_of", {"eth1": 1}.get)
    listen = (ListenSettings(kind="ring", interface="eth1"),)
    settings = Settings(data=tmp_path, processors=processors, listen=listen)
    found = {each.what: each for each in environment.findings(settings)}
    assert found["processors"].verdict != "bad"
    assert found["NUMA node of eth1"].verdict == verdict
    assert ("2-3" in found["NUMA node of eth1"].advice) == (verdict == "advice")
