"""JSON schema of the configuration file, from which editors complete and check it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any

from pydantic import BaseModel

from ..collector import Settings
from ..destinations.common import ExportSettings
from ..destinations.kinds import ENTRY_POINTS, EXPORT_KINDS, METRICS_KINDS
from ..destinations.metrics import MetricsSettings
from ..names_from import DEVICE_KINDS, DeviceSettings
from ..section import item_section, section_of
from ..switches import CONTROLLED_KINDS, ControlledSettings
from .descriptions import descriptions

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """The schema of all settings, those of installed packages' destinations included."""
    schema = _described(Settings)
    definitions: dict[str, Any] = schema["$defs"]
    kinds = dict(EXPORT_KINDS)
    for point in entry_points(group=ENTRY_POINTS):
        kinds.setdefault(point.name, point.load().Settings)
    definitions["ExportSettings"] = _by_kind(ExportSettings, kinds, definitions)
    definitions["MetricsSettings"] = _by_kind(MetricsSettings, METRICS_KINDS, definitions)
    definitions["DeviceSettings"] = _by_kind(DeviceSettings, DEVICE_KINDS, definitions)
    definitions["ControlledSettings"] = _by_kind(ControlledSettings, CONTROLLED_KINDS, definitions)
    listener = {"anyOf": [schema["properties"]["listen"]["items"], {"type": "string"}]}
    listen = schema["properties"]["listen"]
    listen |= {"type": ["array", "string"], "items": listener}
    found: dict[str, Any] = _without_null(schema)
    return {"$schema": DIALECT, **found, "title": "Settings of Hopscope"}


def _described(model: type[BaseModel]) -> dict[str, Any]:
    """Pydantic's schema of a model, with the descriptions of settings."""
    schema = model.model_json_schema()
    for each in _models(model):
        found = schema if each is model else schema["$defs"][each.__name__]
        for name, text in descriptions(each).items():
            if text:
                found["properties"][name].setdefault("description", text)
    return schema


def _models(model: type[BaseModel]) -> set[type[BaseModel]]:
    """A model and those of its settings."""
    found = {model}
    for field in model.model_fields.values():
        if below := section_of(field.annotation) or item_section(field.annotation):
            found |= _models(below)
    return found


def _by_kind(
    base: type[BaseModel], kinds: Mapping[str, type[BaseModel]], definitions: dict[str, Any]
) -> dict[str, Any]:
    """A table whose `kind` decides which settings it has; adds the definitions of the kinds."""
    cases = []
    for kind, model in kinds.items():
        own = _described(model)
        definitions |= own.pop("$defs", {})
        own["properties"]["kind"] = {"const": kind}
        definitions[model.__name__] = own
        test = {"properties": {"kind": {"const": kind}}, "required": ["kind"]}
        cases.append({"if": test, "then": {"$ref": f"#/$defs/{model.__name__}"}})
    about = descriptions(base)["kind"]
    return {
        "type": "object",
        "description": base.__doc__,
        "properties": {"kind": {"enum": list(kinds), "description": about}},
        "required": ["kind"],
        "allOf": cases,
    }


def _without_null(tree: Any) -> Any:
    """The schema without what TOML does not have: null."""
    if isinstance(tree, list):
        return [_without_null(each) for each in tree if each != {"type": "null"}]
    if not isinstance(tree, dict):
        return tree
    found = {
        key: _without_null(value)
        for key, value in tree.items()
        if not (key == "default" and (value is None or isinstance(value, dict)))
    }
    if "patternProperties" in found:
        found["additionalProperties"] = False
    if len(found.get("anyOf", ())) == 1:
        found |= found.pop("anyOf")[0]
    return found
