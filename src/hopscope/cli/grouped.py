"""Options that several commands share, declared once as the fields of a dataclass."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any, get_type_hints

import typer


def option(*names: str, help: str, metavar: str | None = None, **more: Any) -> Any:
    """An option whose default is not worth showing."""
    return typer.Option(*names, help=help, metavar=metavar, **{"show_default": False, **more})


def grouped(function: Callable[..., None]) -> Callable[..., None]:
    """A command each of whose parameters that is a dataclass stands for an option by field.

    The parameter's default, an instance, has the options' defaults.
    """
    hints = get_type_hints(function, include_extras=True)
    shown: list[inspect.Parameter] = []
    groups: dict[str, tuple[type, list[str]]] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        group = hints[name]
        if not is_dataclass(group):
            shown.append(parameter.replace(annotation=group, kind=parameter.KEYWORD_ONLY))
            continue
        assert isinstance(group, type)
        defaults = group() if parameter.default is parameter.empty else parameter.default
        types = get_type_hints(group, include_extras=True)
        groups[name] = group, [field.name for field in fields(group)]
        for field in groups[name][1]:
            default = getattr(defaults, field)
            kind = inspect.Parameter.KEYWORD_ONLY
            shown.append(inspect.Parameter(field, kind, default=default, annotation=types[field]))

    @wraps(function)
    def command(**given: Any) -> None:
        made = {
            name: group(**{key: given.pop(key) for key in keys}) for name, (group, keys) in groups.items()
        }
        function(**made, **given)

    command.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    return command
