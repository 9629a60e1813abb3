"""Errors in settings, one line each: origin, key, what was found, what was expected."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from ...base.errors import HopscopeError
from ..destinations.shown import shown_webhook
from ..section import is_secret, item_section, plain_type, section_of
from .forms import in_words
from .places import spelled_in

_EXPECTED = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": "a table",
    "finite_number": "a finite number",
    "float_parsing": "a number",
    "float_type": "a number",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a smaller number",
    "int_type": "a whole number",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "list_type": "a list",
    "literal_error": "{expected}",
    "model_type": "a table",
    "path_type": "a path",
    "string_too_long": "at most {max_length} characters",
    "string_too_short": "{min_length} or more characters",
    "string_type": "text",
    "too_long": "at most {max_length} items",
    "too_short": "{min_length} or more items",
    "tuple_type": "a list",
}
"""Type of an error of pydantic to what was expected, with the error's context."""
MAX_SHOWN = 200
"""Longest value in a message, in characters."""


class ConfigError(HopscopeError):
    """Wrong settings; the message has one line per error."""


def error_lines(
    error: ValidationError, model: type[BaseModel], origins: Mapping[str, str] | None = None
) -> list[str]:
    """One line per error in values of `model`; `origins` are the sources of its keys, see `Loaded`."""
    lines = []
    for item in error.errors():
        if item["type"] == "too_short" and len(item["input"]) >= item["ctx"]["min_length"]:
            continue  # too short only without its wrong items; each of those has a line of its own
        location = item["loc"]
        if location[-1:] == ("[key]",):  # the name of a table is wrong
            location = location[:-1]
        path = ""
        for part in location:
            path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
        text = expected(item)
        if not path and ": " in text:  # about several sections: the message begins with a key
            path, _, text = text.partition(": ")
        origin = origin_of(path, origins or {})
        if item["type"] == "missing" and origin is None:
            origin = origin_of(path.rpartition(".")[0], origins or {})
        place = f"{origin}: {path}" if origin and not origin.endswith(path) else origin or path
        where = f"{place}: " if place else ""
        if item["type"] == "extra_forbidden":
            beside = _fields(model, location[:-1])
            last, given = str(location[-1]), origin or ""
            hint = did_you_mean(last, beside, given, path.removesuffix(last)) or elsewhere(path, model, given)
            lines.append(f"{where}no such setting{hint}")
        elif item["type"] == "missing":
            lines.append(f"{where}not set, expected a value")
        elif item["type"] == "value_error":
            lines.append(f"{where}{text}")
        else:
            lines.append(f"{where}found {_shown(path, item['input'])}, {text}")
    return lines


def expected(item: Mapping[str, Any]) -> str:
    """What an error of pydantic's list expected."""
    context = item.get("ctx", {})
    if item["type"] == "string_pattern_mismatch":
        return f"expected {in_words(context['pattern'])}"
    if phrase := _EXPECTED.get(item["type"]):
        return f"expected {phrase.format(**context)}"
    text: str = item["msg"]
    return text.removeprefix("Value error, ").replace("Input should be", "expected")


_NEAR = 0.72
"""Similarity (difflib) from which a name may be meant: `alerts` and `dialects` have 0.71."""


def did_you_mean(name: str, names: Iterable[str], origin: str = "", above: str = "") -> str:
    """The end of a line about an unknown name, as `spelled_in` writes it."""
    close = difflib.get_close_matches(name, list(names), n=1, cutoff=_NEAR)
    return f"; did you mean {spelled_in(close[0], origin, above)}?" if close else ""


def elsewhere(path: str, model: type[BaseModel], origin: str = "") -> str:
    """The end of a line about an unknown setting: those of a model that have its name, but another place; of
    more than three, none is likelier than another.
    """
    name = path.rpartition(".")[2]
    same = [key for key in _settings(model) if key.rpartition(".")[2] == name]
    close = difflib.get_close_matches(path, same, n=3, cutoff=0) if len(same) <= 3 else []
    found = dict.fromkeys(spelled_in(key, origin) for key in close)
    return f"; did you mean {' or '.join(found)}?" if found else ""


def _settings(model: type[BaseModel], above: str = "") -> Iterator[str]:
    """Every setting of a model, such as `serve.port`, `listen[].port`, `export.NAME.kind`."""
    for name, field in model.model_fields.items():
        key = f"{above}{name}"
        yield key
        if section := section_of(field.annotation):
            yield from _settings(section, f"{key}.")
        elif section := item_section(field.annotation):
            named = get_origin(plain_type(field.annotation)) is dict
            yield from _settings(section, f"{key}.NAME." if named else f"{key}[].")


def origin_of(path: str, origins: Mapping[str, str]) -> str | None:
    """What set this key: itself, the closest list or section around it, or else the first key in it."""
    around = [key for key in origins if f"{path}.".startswith((f"{key}.", f"{key}["))]
    inside = (key for key in origins if key.startswith(f"{path}."))
    key = max(around, key=len, default=None) or next(inside, None)
    return None if key is None else origins[key]


def _fields(model: Any, path: Sequence[str | int]) -> Iterable[str]:
    """Names of the settings of the section at a path."""
    for part in path:
        if _is_section(model):
            model = model.model_fields[part].annotation
        else:  # an item of a list, or a value of a table
            model = [kind for kind in get_args(model) if kind is not Ellipsis][-1]
        model = plain_type(model)
    return model.model_fields if _is_section(model) else ()


def _is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _shown(path: str, value: Any) -> str:
    """A value without secrets."""
    if is_secret(path) or (_is_webhook(path) and "://" not in str(value)):
        return f"{len(str(value))} characters"
    if _is_webhook(path):
        value = shown_webhook(str(value))
    if isinstance(value, Mapping):
        value = {
            key: "(set)" if is_secret(key) or _is_webhook(f"{path}.{key}") else each
            for key, each in value.items()
        }
    text = re.sub(r"//[^\s]*@", "//***@", repr(value))
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def _is_webhook(path: str) -> bool:
    """Whether it may be the URL of a webhook, whose path may be a secret."""
    return re.fullmatch(r"export\b.*\burl", path) is not None
