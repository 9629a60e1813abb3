"""Patterns in words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from hopscope.serve.api import create_app
from hopscope.settings.configuration.forms import in_words
from hopscope.settings.configuration.json_schema import json_schema
from hopscope.settings.serve import ServeSettings

READ_AS_NUMBER = r"^\s*(0[xX])?[0-9a-fA-F]+\s*$"
"""Only the schema has this pattern; the settings have a validator with a message of its own."""


def patterns(tree: Any) -> Iterator[str]:
    """Every pattern in a JSON schema, also those of keys."""
    if isinstance(tree, dict):
        if isinstance(tree.get("pattern"), str):
            yield tree["pattern"]
        yield from tree.get("patternProperties", ())
        for each in tree.values():
            yield from patterns(each)
    elif isinstance(tree, list):
        for each in tree:
            yield from patterns(each)


def test_nobody_has_to_read_a_pattern(tmp_path: Any) -> None:
    """Each pattern of a setting or a parameter of the API has words, and their example matches it."""
    app = create_app(ServeSettings(), tmp_path)
    found = {*patterns(json_schema()), *patterns(app.openapi())} - {READ_AS_NUMBER}
    app.state.context.close()
    assert len(found) > 30
    for pattern in found:
        words = in_words(pattern)
        assert pattern not in words
        example = words.partition(", as in ")[2]
        assert re.search(pattern, example) if example else "begins with" in words


def test_a_pattern_of_somebody_else() -> None:
    """A destination that is not part of Hopscope may have any pattern: it is shown as it is."""
    assert in_words("^[xyz]+$") == "text that matches ^[xyz]+$"
