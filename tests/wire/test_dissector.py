"""The generated text of the Wireshark dissector, without Wireshark."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from hopscope.cli.application import build
from hopscope.wire import rules
from hopscope.wire.catalog import HEADERS
from hopscope.wire.dialect import DEFAULT, DIALECTS, Dialect
from hopscope.wire.fields import RESERVED
from hopscope.wire.reasons import Reason
from hopscope.wire.wireshark.dissector import SHOWN, dissector


def _rules(text: str) -> np.ndarray:
    """A table of the bytes that a Lua table lists."""
    table = np.zeros(rules.ITEMS, np.uint8)
    for at, value in re.findall(r"\[(\d+)\] = (\d+)", text):
        table[int(at)] = int(value)
    return table


def test_rules_of_every_dialect() -> None:
    """What the text says of a dialect, over what it says of the specifications, is the dialect's table."""
    text = dissector()
    spec = _rules(text[text.index("local SPEC = ") : text.index("local DIALECTS = ")])
    assert np.array_equal(spec, DEFAULT.table()[: rules.ITEMS])
    parts = re.findall(
        r"\{ name = \"([^\"]*)\", about = .*?\n    rules = (\{.*?\n?.*?\}),\n    md", text, re.S
    )
    assert [name for name, _ in parts] == list(DIALECTS)
    for name, part in parts:
        changed = [int(at) for at in re.findall(r"\[(\d+)\]", part)]
        table = spec.copy()
        table[changed] = _rules(part)[changed]
        assert np.array_equal(table, DIALECTS[name].table()[: rules.ITEMS]), name


def test_every_header_and_reason_is_there() -> None:
    """Each header of the layout, with each field's place, and each reason is in the text."""
    text = dissector()
    for name, header in HEADERS.items():
        part = text[text.index(f"  {name} = {{ title = ") :]
        part = part[: part.index("\n  },\n")]
        for field in header.fields:
            row = f'name = "{field.name}", at = {field.at}, bits = {field.bits},'
            assert (row in part) == (field.name != RESERVED), f"{name}.{field.name}"
    for reason in Reason:
        assert not reason or f'"{reason.label}"' in text, reason


def test_one_kind_of_value_for_a_filter() -> None:
    """Fields that share a filter are all truth values, or all numbers: Wireshark compares them as one."""
    kinds = defaultdict(set)
    for name, prefix in SHOWN.items():
        for field in HEADERS[name].fields:
            kinds[f"{prefix}.{field.name}"].add(field.bits == 1)
    assert not [name for name, found in kinds.items() if len(found) > 1 and not name.endswith("reserved")]


def test_the_template_has_no_offsets() -> None:
    """What is written by hand reads headers by their names: no header's size or field's place is in it."""
    template = dissector().split("-- ---")[1:]
    assert template
    for line in "".join(template).splitlines():
        assert not re.search(r"\b(at|bits) = \d{2,}", line), line


@pytest.mark.parametrize("to", ["", "-", "hopscope.lua"])
def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str) -> None:
    """The command prints the dissector, or writes it to a file."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / to
    options = ["-o", to] if to else []
    done = CliRunner().invoke(build(), ["dissector", *options])
    assert done.exit_code == 0, done.output
    written = [each.name for each in tmp_path.iterdir()]
    assert written == ["hopscope.lua"] * (to == "hopscope.lua")
    assert (path.read_text("utf-8") if written else done.stdout) == dissector()


def test_own_dialects(tmp_path: Path) -> None:
    """A dialect of the configuration is offered too; what its name has of Lua's marks is harmless."""
    config = tmp_path / "hopscope.toml"
    config.write_text('[dialects.mine]\nbase = "spec"\nint_dscp = [9]\n')
    done = CliRunner().invoke(build(), ["dissector", "--config", str(config)])
    assert done.exit_code == 0, done.output
    assert f"[{rules.INT_DSCP + 9}] = 1" in done.stdout[done.stdout.index('{ name = "mine", ') :]
    hostile = Dialect('a" }\n\\', "about\nmany lines")
    assert r'{ name = "a\034 }\010\092", about = "about\010many lines",' in dissector({"x": hostile})
