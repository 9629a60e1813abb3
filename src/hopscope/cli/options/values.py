"""Words that complete the values of options, by the placeholder of the value in `--help`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import get_args


def _table(module: str, name: str) -> Callable[[], Iterable[str]]:
    """A table of words in a module of Hopscope; the module is imported only when the words are needed."""
    return lambda: getattr(import_module(f"hopscope.{module}"), name)


def _report_kinds() -> Iterable[str]:
    from ...wire.records import Kind

    return (*(kind.name.lower() for kind in Kind), "error")


def _measures() -> Iterable[str]:
    from ...detect.sink.records import Measure

    return (measure.label for measure in Measure)


def _views() -> Iterable[str]:
    from ...detect.distributions.quantiles import By

    return get_args(By)


def _dialects() -> Iterable[str]:
    from ...settings.dialects import AUTO
    from ...wire.dialect import DIALECTS

    return (*DIALECTS, AUTO)


def _settings() -> Iterable[str]:
    from ...settings.collector import Settings
    from ...settings.configuration.file import walk
    from ...settings.section import section_of

    tables = {name for name, field in Settings.model_fields.items() if section_of(field.annotation)}
    return (f"{key}=" for key, _ in walk(Settings) if key not in tables)


def _faults() -> Iterable[str]:
    from ...fabric.faults import FaultKind

    return (f"{kind}@" for kind in FaultKind)


WORDS: Mapping[str, Callable[[], Iterable[str]]] = {
    "KIND": _table("present.select", "KINDS"),
    "REPORT-KIND": _report_kinds,
    "METRIC": _table("present.select", "METRICS"),
    "MEASURE": _measures,
    "VIEW": _views,
    "DIALECT": _dialects,
    "KEY=VALUE": _settings,
    "SIZES": _table("fabric.traffic", "SIZES"),
    "FAULT": _faults,
    "MONITOR": _table("direct.monitors.registry", "MONITORS"),
    "MONITOR[:KEYS]": _table("direct.monitors.registry", "MONITORS"),
    "LEVEL": _table("base.log", "LEVELS"),
    "LOG-FORMAT": _table("base.log", "FORMATS"),
    "PART": _table("runtime.warmup", "PARTS"),
    "TOPOLOGY": lambda: ("fat-tree:4", "leaf-spine:2x2", "paper"),
    "VERSION": lambda: ("0.5", "1.0", "2.0"),
    "FORM": lambda: ("2", "3", "sized"),
    "MODE": lambda: ("md", "mx", "xd"),
    "WHEN": lambda: ("packet", "event", "flow"),
    "ALGORITHM": lambda: ("base-a", "base-b"),
    "ADAPTIVE": lambda: ("off", "shift", "one-bit"),
    "CHANCE": lambda: ("f1", "f2", "f2-listing", "f3"),
    "latest|mean": lambda: ("latest", "mean"),
    "TIME": lambda: ("1m", "5m", "1h", "1d"),
}
"""Function that lists the words, by placeholder; it imports slow modules only when called."""
