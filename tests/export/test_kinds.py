"""Kinds of destinations that need a package."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from hopscope.base.errors import HopscopeError
from hopscope.base.extras import install_command
from hopscope.export import kinds
from hopscope.settings.collector import Settings

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("kind", sorted(kinds.CLIENTS))
def test_a_missing_client_is_named(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has the command that installs it, with an extra that the project has."""
    monkeypatch.setattr(kinds, "find_spec", lambda name: None)
    _, extra = kinds.CLIENTS[kind]
    with pytest.raises(HopscopeError) as found:
        kinds.require_client(kind)
    assert str(found.value) == f"{kind}: a package is missing; install it with: {install_command(extra)}"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert extra in project["project"]["optional-dependencies"]


@pytest.mark.parametrize(
    ("kind", "part"),
    [("nats", "prefix and stream"), ("redis_stream", "prefix"), ("mqtt", "prefix"), ("kafka", "topic")],
)
def test_no_two_destinations_have_one_channel(kind: str, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On one subject, stream or topic, equal ids of two destinations would be copies to a bus, and lost."""
    monkeypatch.setattr(kinds, "require_client", lambda kind: None)
    first, second = {"kind": kind}, {"kind": kind, "format": "json", "kinds": ["raised"]}
    with pytest.raises(HopscopeError, match=rf"^export\.two: .* export\.one; expected another {part}$"):
        kinds.check_exports(Settings.model_validate({"export": {"one": first, "two": second}}))
    second[part.partition(" ")[0]] = "other"
    kinds.check_exports(Settings.model_validate({"export": {"one": first, "two": second}}))


def test_every_destination_has_a_name_of_its_own() -> None:
    """Counters of two are never one series."""
    lab, far = {"kind": "influxdb"}, {"kind": "remote_write"}
    settings = Settings.model_validate({"export": {"lab": lab}, "metrics": {"lab": lab, "far": far}})
    assert [place.name for place in kinds.places(settings)] == ["lab", "metrics.lab", "far"]
