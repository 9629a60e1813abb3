"""Watch lists and tracked flows of all switches while a collector runs, in a file in the folder of regions.

Like the limits, the supervisor writes them: from the settings at the start, and when an operator changes
them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from ..memory.text_file import read_text, write_text
from ..settings.collector import Settings
from ..settings.configuration.errors import error_lines
from ..settings.label import TrackedFlowSettings
from ..settings.section import Section
from ..settings.switches import NamedSwitches, WatchRule, check_rules
from .state import MAX_TRACKED

FILE_NAME = "control.rules"
EXPECTED = 'expected {"add": [...], "remove": [...]}'
Item = TypeVar("Item", bound=Section)


class Rules(Section):
    """Rules of all switches; None: switches keep what they have."""

    watch: tuple[WatchRule, ...] | None = None
    """Watch lists."""
    track: tuple[TrackedFlowSettings, ...] | None = None
    """Tracked flows."""


def configured(settings: Settings) -> Rules:
    """The rules of the settings."""
    return Rules(watch=settings.control.watch, track=settings.label.track if settings.label.listen else None)


def read_rules(regions: Path) -> Rules:
    """The rules in force; empty rules if there is no file."""
    text = read_text(regions / FILE_NAME)
    return Rules() if text is None else Rules.model_validate_json(text)


def write_rules(regions: Path, rules: Rules) -> None:
    """Put these rules into force."""
    write_text(regions / FILE_NAME, rules.model_dump_json())


def change_watch(rules: Rules, switches: NamedSwitches, changes: Any) -> Rules:
    """Rules after `changes` of the watch lists; a change `set` replaces all rules. ValueError: rejected."""
    before = rules.watch or ()
    if isinstance(changes, dict) and changes.keys() == {"set"}:
        before, changes = (), {"add": changes["set"]}
    added, removed = read_changes(changes, WatchRule)
    watch = _changed(before, added, removed, WatchRule.model_copy, "no watch list has this rule")
    check_rules(switches, watch)
    return rules.model_copy(update={"watch": watch})


def change_tracked(rules: Rules, changes: Any) -> Rules:
    """Rules after `changes` of the tracked flows, each identified by its addresses. ValueError: rejected."""
    if rules.track is None:
        raise ValueError("tracked flows need label.listen, which receives their labels")
    added, removed = read_changes(changes, TrackedFlowSettings)

    def same(flow: TrackedFlowSettings) -> TrackedFlowSettings:
        return flow.model_copy(update={"every": 1})

    track = _changed(rules.track, added, removed, same, "this flow is not tracked")
    if len(track) > MAX_TRACKED:
        raise ValueError(f"found {len(track):,} flows to track, expected {MAX_TRACKED:,} or fewer")
    return rules.model_copy(update={"track": track})


def read_changes(changes: Any, kind: type[Item]) -> tuple[list[Item], list[Item]]:
    """Items to add and to remove. ValueError: rejected."""
    if not isinstance(changes, dict) or changes.keys() - {"add", "remove"}:
        raise ValueError(EXPECTED)
    added, removed = changes.get("add", []), changes.get("remove", [])
    if not isinstance(added, list) or not isinstance(removed, list):
        raise ValueError(EXPECTED)
    try:
        return [kind.model_validate(item) for item in added], [kind.model_validate(item) for item in removed]
    except ValidationError as error:
        raise ValueError("; ".join(error_lines(error, kind))) from None


def _changed(
    before: tuple[Item, ...], added: list[Item], removed: list[Item], key: Any, missing: str
) -> tuple[Item, ...]:
    """`before` without `removed` and with `added`; each key occurs once."""
    kept = {key(item): item for item in before}
    for item in removed:
        if kept.pop(key(item), None) is None:
            raise ValueError(missing)
    kept |= {key(item): item for item in added}
    return tuple(kept.values())
