"""What settings, fields of the API, and members of enumerations mean: the docstrings below them.

Pydantic would read them at every start (`use_attribute_docstrings`), in 0.1 s of CPU time, although only
help, documentation and editors show them.
"""

from __future__ import annotations

import ast
import inspect
import sys
from enum import Enum
from functools import cache
from itertools import pairwise

from pydantic import BaseModel


def descriptions(model: type[BaseModel]) -> dict[str, str]:
    """The description of every field of a model, empty if it has none."""
    found: dict[str, str] = {}
    for owner in reversed(model.__mro__):
        found |= _classes(owner.__module__).get(owner.__qualname__, {})
    return {name: field.description or found.get(name, "") for name, field in model.model_fields.items()}


@cache
def member_descriptions(enumeration: type[Enum]) -> dict[str, str]:
    """The docstring below each member of an enumeration by its name, which Python itself does not keep."""
    owner = ast.parse(inspect.getsource(enumeration)).body[0]
    assert isinstance(owner, ast.ClassDef)
    return {
        member.targets[0].id: inspect.cleandoc(text.value.value)
        for member, text in pairwise(owner.body)
        if isinstance(member, ast.Assign)
        and isinstance(member.targets[0], ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


@cache
def _classes(module: str) -> dict[str, dict[str, str]]:
    """Docstrings of attributes, by class and name."""
    if module not in sys.modules or module.partition(".")[0] in ("builtins", "pydantic"):
        return {}
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {each.name: dict(_attributes(each)) for each in tree.body if isinstance(each, ast.ClassDef)}


def _attributes(owner: ast.ClassDef) -> list[tuple[str, str]]:
    return [
        (attribute.target.id, inspect.cleandoc(text.value.value))
        for attribute, text in pairwise(owner.body)
        if isinstance(attribute, ast.AnnAssign)
        and isinstance(attribute.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    ]
