"""The JSON schema of the settings accepts what `load` accepts, and rejects what it rejects."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from hopscope.settings.collector import Settings
from hopscope.settings.configuration.errors import ConfigError
from hopscope.settings.configuration.file import load
from hopscope.settings.configuration.json_schema import json_schema

from .test_every_setting import DECLARED, nested, sample, set_kind

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json_schema()
VALIDATOR = Draft202012Validator(SCHEMA)


def problems(tree: dict[str, Any]) -> list[str]:
    """What the schema rejects, one line each."""
    return [f"{error.json_path}: {error.message}" for error in VALIDATOR.iter_errors(tree)]


def test_the_schema_is_one() -> None:
    """It is a schema of its draft, and every setting in it has a description."""
    Draft202012Validator.check_schema(SCHEMA)
    for name, definition in [("Settings", SCHEMA), *SCHEMA["$defs"].items()]:
        for key, each in definition.get("properties", {}).items():
            assert {"description", "const", "$ref"} & each.keys(), f"{name}.{key}"


def test_the_schema_accepts_every_setting() -> None:
    """A file with a setting, for each that there is."""
    for key, kind, field in DECLARED:
        tree = nested(key, sample(key, field, kind))
        set_kind(tree, kind)
        assert not problems(tree), key


def examples() -> list[Any]:
    """The TOML examples of the documentation that are settings."""
    found = []
    for page in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]):
        for number, text in enumerate(re.findall(r"^```toml\n(.*?)^```", page.read_text(), re.S | re.M)):
            tree = tomllib.loads(text)
            if tree.keys() <= Settings.model_fields.keys():
                found.append(pytest.param(tree, id=f"{page.stem}-{number}"))
    return found


EXAMPLES = examples()


def test_the_documentation_has_examples() -> None:
    """Of many sections."""
    assert len(EXAMPLES) > 10
    assert {"listen", "serve", "export"} <= {key for example in EXAMPLES for key in example.values[0]}


@pytest.mark.parametrize("tree", EXAMPLES)
def test_the_schema_accepts_the_examples_of_the_documentation(tree: dict[str, Any]) -> None:
    """As an editor would check them."""
    if tree.get("export", {}).get("NAME", {}).get("kind") == "lines":
        pytest.skip("a kind of a package that is not installed")
    assert not problems(tree)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("[serve]\nprot = 1", "$.serve"),
        ("[serve]\nport = 65536", "$.serve.port"),
        ("[serve]\nport = 'x'", "$.serve.port"),
        ("[[listen]]\nkind = 'tcp'", "$.listen[0]"),
        ("[detect.thresholds.hop_latency]\nchange = 'often'", "$.detect.thresholds.hop_latency.change"),
        ("[export.lab]\nurl = 'http://h'", "$.export.lab"),
        ("[export.lab]\nkind = 'influxdb'\nretention = 3", "$.export.lab"),
        ("[export.lab]\nkind = 'influx'", "$.export.lab.kind"),
        ("[export.LAB]\nkind = 'influxdb'", "$.export"),
        ("[export.hook]\nkind = 'webhook'", "$.export.hook"),
        ("dta = true", "$"),
    ],
)
def test_the_schema_rejects_what_load_rejects(tmp_path: Path, text: str, where: str) -> None:
    """And says where it is."""
    file = tmp_path / "hopscope.toml"
    file.write_text(text)
    with pytest.raises(ConfigError):
        load(file, environment={})
    assert [line for line in problems(tomllib.loads(text)) if line.startswith(f"{where}: ")]
