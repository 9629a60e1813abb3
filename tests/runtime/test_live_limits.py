"""Limits of a member of a cluster: those of the cluster lie over its own; no request here changes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hopscope.detect.thresholds import create_control, read_limits
from hopscope.memory.region import Region
from hopscope.runtime.supervisor.live_limits import FILE_NAME, LiveLimits
from hopscope.settings.collector import Settings
from hopscope.settings.limits import as_json


def settings(cluster: str | None = "dc1", **thresholds: Any) -> Settings:
    nats = ["nats://127.0.0.1:4222"] if cluster else []
    return Settings.model_validate(
        {
            "member": "c1",
            "cluster": {"name": cluster or "none", "nats": nats},
            "detect": {"thresholds": {"hop_latency": {"change": 5, **thresholds}}},
        }
    )


def made(tmp_path: Path, of: Settings | None = None) -> tuple[LiveLimits, Region]:
    of = of or settings()
    region = create_control(None, of.limits)
    return LiveLimits(region, of, tmp_path), region


def revision(number: int, cluster: str = "dc1", **general: Any) -> dict[str, Any]:
    return {"set_cluster": {"cluster": cluster, "revision": number, "limits": {"general": general}}}


def hop(region: Region) -> dict[str, Any]:
    return as_json(read_limits(region))["general"]["hop_latency"]


def test_a_revision_lies_over_what_the_member_has(tmp_path: Path) -> None:
    """What it sets holds; what it does not set is the member's own; what the next one leaves out is again."""
    limits, region = made(tmp_path)
    limits.answer({"set_limits": {"general": {"hop_latency": {"change": 6}}}}, "x")
    limits.answer(revision(3, hop_latency={"raise_above": 70}), "x")
    assert hop(region) == {"change": 6, "raise_above": 70, "clear_below": None}
    limits.answer(revision(4, hop_latency={"change": 1}), "x")
    assert hop(region) == {"change": 1, "raise_above": None, "clear_below": None}
    limits.answer(revision(5), "x")
    assert hop(region)["change"] == 6
    answer = limits.answer({"cluster": {}}, "x")
    assert answer == {"cluster": {"cluster": "dc1", "revision": 5, "limits": {"general": {}}}}


def test_a_request_does_not_change_what_the_cluster_sets(tmp_path: Path) -> None:
    """It is rejected with the revision and the remedy; other limits, and the same value, may be set; a reset
    leaves the cluster's in force.
    """
    limits, region = made(tmp_path)
    switches = {"7": {"hop_latency": {"change": 2}}}
    limits.answer(
        {"set_cluster": {"cluster": "dc1", "revision": 3, "limits": {
            "general": {"hop_latency": {"change": 1}}, "switches": switches,
        }}}, "x",
    )  # fmt: skip
    for changes in (
        {"general": {"hop_latency": {"change": 2}}},
        {"switches": {"7": {"hop_latency": {"change": 3}}}},
        {"switches": {"7": None}},
    ):
        with pytest.raises(ValueError, match=r"revision 3 .* of cluster dc1; change it by"):
            limits.answer({"set_limits": changes}, "x")
    limits.answer({"set_limits": {"general": {"hop_latency": {"change": 1, "raise_above": 9}}}}, "x")
    assert hop(region) == {"change": 1, "raise_above": 9, "clear_below": None}
    limits.answer({"reset_limits": {}}, "x")
    assert hop(region) == {"change": 1, "raise_above": None, "clear_below": None}
    assert as_json(read_limits(region))["switches"] == switches


def test_a_revision_is_applied_whole_or_not(tmp_path: Path) -> None:
    """A revision with a part that is no good, or of another cluster, changes nothing; the old one stays."""
    limits, region = made(tmp_path)
    limits.answer(revision(3, hop_latency={"change": 1}), "x")
    for bad in (
        revision(4, hop_latency={"change": 2}, speed={"change": 1}),
        revision(4, hop_latency={"change": 2, "clear_below": 7}),
        revision(4, hop_latency={"change": "much"}),
        revision(4, "dc2", hop_latency={"change": 2}),
        {"set_cluster": {"revision": 4}},
        {"set_cluster": [1]},
        {"set_cluster": {"cluster": "dc1", "revision": "4", "limits": {}}},
        {"set_cluster": {"cluster": "dc1", "revision": 4, "limits": {"general": {"hop_latency": 2}}}},
    ):
        with pytest.raises(ValueError, match=r"\w"):
            limits.answer(bad, "x")
    assert hop(region)["change"] == 1
    assert json.loads((tmp_path / FILE_NAME).read_text())["revision"] == 3


def test_a_restart_and_new_settings_keep_the_revision(tmp_path: Path) -> None:
    """It is applied again without NATS, and over settings that are read again; not in another cluster, nor
    without one, and a damaged file is reported.
    """
    limits, region = made(tmp_path)
    limits.answer(revision(3, hop_latency={"raise_above": 70}), "x")
    limits, region = made(tmp_path)
    limits.resume(pytest.fail)
    assert hop(region)["raise_above"] == 70
    limits.configure(settings(clear_below=None, change=8), "SIGHUP")
    assert hop(region) == {"change": 8, "raise_above": 70, "clear_below": None}
    with pytest.raises(ValueError, match="clear_below"):
        limits.configure(settings(raise_above=200, clear_below=100), "SIGHUP")
    assert hop(region)["change"] == 8
    limits.configure(settings("dc2"), "SIGHUP")
    assert hop(region)["raise_above"] is None
    limits.configure(settings(None), "SIGHUP")
    assert not (tmp_path / FILE_NAME).exists()
    (tmp_path / FILE_NAME).write_text("[" * 100_000)
    warnings: list[str] = []
    limits, region = made(tmp_path)
    limits.resume(warnings.append)
    assert len(warnings) == 1
    assert hop(region)["raise_above"] is None
