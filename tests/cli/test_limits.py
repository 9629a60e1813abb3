"""`hopscope limits`: what is in force is printed, changed and undone; settings accept what it prints."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hopscope.detect.thresholds import CONTROL_FILE, create_control, read_limits
from hopscope.memory.data_folder import DataFolder
from hopscope.runtime.supervisor.control import ControlServer
from hopscope.runtime.supervisor.live_limits import LiveLimits
from hopscope.settings.collector import Settings
from hopscope.settings.configuration.file import load
from support.processes import command
from support.processes.command import Run

CONFIGURED: dict[str, Any] = {
    "sink": {"enabled": True},
    "detect": {
        "thresholds": {"hop_latency": {"change": 1000, "raise_above": 900_000}},
        "switches": [{"node": 7, "hop_latency": {"raise_above": 500_000}}],
    },
}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run `hopscope` with arguments: exit status, stdout, stderr."""
    monkeypatch.setenv("HOPSCOPE_CONFIG", str(tmp_path / "settings.toml"))
    (tmp_path / "settings.toml").write_text(f"data = {str(tmp_path / 'data')!r}\n")
    monkeypatch.setenv("COLUMNS", "200")
    return command.run


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[Any]:
    """The limits of a sink that seems to run in the folder of `run`."""
    settings = Settings.model_validate(CONFIGURED)
    with DataFolder(tmp_path / "data") as folder:
        folder.write_owner(listen=[], api=None)
        control = create_control(folder.regions / CONTROL_FILE, settings.limits, sink=True)

        limits = LiveLimits(control, settings)

        def answer(request: dict[str, Any], author: str) -> dict[str, Any]:
            return limits.answer(request, author) or {}

        server = ControlServer(folder.path, answer)
        server.start()
        yield lambda: read_limits(control)
        server.close()


def rows(run: Run) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run("limits", "show", "--format", "json")[1].splitlines()]


def test_limits_are_shown(run: Run, sink: Any, tmp_path: Path) -> None:
    """All switches, then those with limits of their own; times have units; what is inherited shows."""
    names = tmp_path / "names.csv"
    names.write_text("node_id,port,name\n7,,leaf-7\n")
    status, out, _ = run("limits", "show", "--names", names)
    assert status == 0
    assert [line.split("  ") for line in out.splitlines()] == [
        line.split("  ")
        for line in (
            "switch  metric            change     raise_above  clear_below",
            "all     flow_latency      50.0 µs    never        never",
            "all     hop_latency       1.00 µs    900 µs       never",
            "all     queue_occupancy   500        never        never",
            "all     link_utilization  100        never        never",
            "leaf-7  hop_latency       (1.00 µs)  500 µs       (never)",
        )
    ]
    assert rows(run)[-1] == {
        "switch": 7, "metric": "hop_latency", "change": 1000, "raise_above": 500_000, "clear_below": None,
        "inherited": ["change", "clear_below"],
    }  # fmt: skip


def test_limits_are_changed_and_undone(run: Run, sink: Any, tmp_path: Path) -> None:
    """Of all switches and of one; a switch follows; `--toml` prints settings that mean the same."""
    configured = sink()
    status, out, err = run("limits", "set", "hop_latency.change=2us", "queue_occupancy.raise_above=9")
    assert status == 0
    assert "changed 0 ms ago by uid " in out or "ms ago by uid " in out
    assert "Not saved" in err
    assert (
        run("limits", "set", "--node", "7", "hop_latency.raise_above=never", "queue_occupancy.change=1")[0]
        == 0
    )
    shown = {(row["switch"], row["metric"]): row for row in rows(run)}
    assert shown[None, "hop_latency"]["change"] == shown[7, "hop_latency"]["change"] == 2000
    assert shown[7, "hop_latency"]["raise_above"] is None
    assert shown[7, "queue_occupancy"] == {
        "switch": 7, "metric": "queue_occupancy", "change": 1, "raise_above": 9, "clear_below": None,
        "inherited": ["raise_above", "clear_below"],
    }  # fmt: skip
    file = tmp_path / "limits.toml"
    file.write_text(run("limits", "show", "--toml")[1])
    assert run("config", "check", file)[0] == 0
    assert load(file, environment={}).settings.limits == sink()

    assert run("limits", "set", "--node", "7", "queue_occupancy.change=general")[0] == 0
    assert (7, "queue_occupancy") not in {(row["switch"], row["metric"]) for row in rows(run)}
    assert run("limits", "reset", "hop_latency")[0] == 0
    assert sink().general.hop_latency == configured.general.hop_latency
    assert sink().general.queue_occupancy.raise_above == 9
    assert run("limits", "reset", "--node", "7")[0] == 0
    assert sink().switches == configured.switches
    assert run("limits", "reset")[0] == 0
    assert sink() == configured


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("hop_latency", "hop_latency: expected METRIC.LIMIT=VALUE, such as hop_latency.raise_above=50us"),
        ("hop_latency.change=fast", "hop_latency.change: fast: expected a time, such as 2ms, 50us or 0.1s"),
        (
            "queue_occupancy.change=5us",
            "queue_occupancy.change=5us: found '5us', expected a whole number or `never`",
        ),
        ("speed.change=5", "speed: unknown metric; known are flow_latency, hop_latency"),
        ("hop_latency.rise=5", "hop_latency.rise: unknown limit; known are change, raise_above, clear_below"),
        ("buffer_occupancy.change=5", "buffer_occupancy: unknown metric"),
        (
            "hop_latency.change=general",
            "general.hop_latency.change: found 'general', expected a whole number",
        ),
        ("hop_latency.clear_below=9s", "found clear_below = 9000000000 with raise_above = 900000, expected"),
        ("--node nowhere hop_latency.change=1", "--node: unknown node 'nowhere'"),
    ],
)
def test_a_wrong_change_is_one_line(run: Run, sink: Any, words: str, line: str) -> None:
    """What was found and what was expected; nothing changes."""
    configured = sink()
    status, out, err = run("limits", "set", *words.split())
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert line in err
    assert sink() == configured


@pytest.mark.parametrize("words", ["show", "set hop_latency.change=1", "reset"])
def test_without_a_collector(run: Run, words: str) -> None:
    """One line says that none runs."""
    status, out, err = run("limits", *words.split())
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert "no collector" in err
