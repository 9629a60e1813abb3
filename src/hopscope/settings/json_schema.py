"""JSON schema of the configuration file, from which editors complete and check it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any

from pydantic import BaseModel

from .collector import Settings
from .destinations.common import ExportSettings
from .destinations.kinds import ENTRY_POINTS, EXPORT_KINDS
from .destinations.metrics import METRICS_KINDS
from .destinations.metrics_common import MetricsSettings

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """The schema of all settings, those of installed packages' destinations included."""
    schema = Settings.model_json_schema()
    definitions: dict[str, Any] = schema["$defs"]
    kinds = dict(EXPORT_KINDS)
    for point in entry_points(group=ENTRY_POINTS):
        kinds.setdefault(point.name, point.load().Settings)
    definitions["ExportSettings"] = _by_kind(ExportSettings, kinds, definitions)
    definitions["MetricsSettings"] = _by_kind(MetricsSettings, METRICS_KINDS, definitions)
    listener = {"anyOf": [schema["properties"]["listen"]["items"], {"type": "string"}]}
    listen = schema["properties"]["listen"]
    listen |= {"type": ["array", "string"], "items": listener}
    found: dict[str, Any] = _without_null(schema)
    return {"$schema": DIALECT, **found, "title": "Settings of Hopscope"}


def _by_kind(
    base: type[BaseModel], kinds: Mapping[str, type[BaseModel]], definitions: dict[str, Any]
) -> dict[str, Any]:
    """A table whose `kind` decides which settings it has; adds the definitions of the kinds."""
    cases = []
    for kind, model in kinds.items():
        own = model.model_json_schema(ref_template="#/$defs/{model}")
        definitions |= own.pop("$defs", {})
        own["properties"]["kind"] = {"const": kind}
        definitions[model.__name__] = own
        test = {"properties": {"kind": {"const": kind}}, "required": ["kind"]}
        cases.append({"if": test, "then": {"$ref": f"#/$defs/{model.__name__}"}})
    about = base.model_fields["kind"].description
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
