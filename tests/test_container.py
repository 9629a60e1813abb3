"""The files for containers: linters accept them, what they name is there, and their settings are settings."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from compose_spec import PyCompose

from hopscope.settings.configuration.file import load
from support.processes.command import hopscope

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "deploy/container"


def test_the_containerfile_is_clean() -> None:
    """hadolint finds nothing."""
    words = [str(Path(sys.executable).with_name("hadolint")), "--no-color", str(FOLDER / "Containerfile")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_compose_file_is_one() -> None:
    """A model of the Compose Specification takes it."""
    compose = PyCompose.from_yaml((FOLDER / "compose.yaml").read_text())
    compose.validate()
    assert set(compose.service_names()) == {"hopscope", "victoriametrics", "dashboards", "grafana"}


def test_a_compose_file_with_an_error_is_rejected() -> None:
    """The model would see one."""
    text = (FOLDER / "compose.yaml").read_text()
    for wrong in (
        text.replace("restart: unless-stopped", "restart: perhaps"),
        text.replace("ports:", "prots:"),
    ):
        with pytest.raises(Exception, match=r"perhaps|prots"):
            PyCompose.from_yaml(wrong).validate()


def test_what_the_compose_file_names_is_there() -> None:
    """Files are in the folder, but for secrets; images have a version; nobody has capabilities."""
    compose = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    for name, service in compose["services"].items():
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            assert (FOLDER / source).exists() if source.startswith(".") else source in compose["volumes"], (
                volume
            )
        assert re.search(r":v?\d+\.\d+\.\d+$", service["image"]), name
        assert service["cap_drop"] == ["ALL"]
        assert set(service.get("secrets", ())) <= compose["secrets"].keys()


def test_grafana_has_the_dashboards(tmp_path: Path) -> None:
    """The service that writes them runs a command that is one, for the database that is there."""
    services = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
    words = services["dashboards"]["command"]
    folder = words[words.index("--to") + 1]
    assert f"provisioning:{folder}" in services["dashboards"]["volumes"]
    assert f"provisioning:{folder}:ro" in services["grafana"]["volumes"]
    done = hopscope(*(str(tmp_path) if word == folder else word for word in words))
    assert done.returncode == 0, done.stderr
    (source,) = yaml.safe_load((tmp_path / "datasources/hopscope-prometheus.yaml").read_text())["datasources"]
    assert source["url"] == "http://victoriametrics:8428"


def test_its_settings_are_settings() -> None:
    """Hopscope's own file loads, and every secret in it comes from a file."""
    loaded = load(FOLDER / "hopscope.toml", environment={})
    assert loaded.settings.serve.token == "file:/run/secrets/hopscope_token"
    assert loaded.settings.listen[0].allow


def test_the_scrape_file_is_prometheus(tool: Callable[..., str]) -> None:
    """promtool takes it."""
    words = [tool("promtool"), "check", "config", "--syntax-only", str(FOLDER / "scrape.yaml")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
