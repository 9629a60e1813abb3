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
    return _docstrings(owner)


@cache
def _classes(module: str) -> dict[str, dict[str, str]]:
    """Docstrings of attributes, by class and name."""
    if module not in sys.modules or module.partition(".")[0] in ("builtins", "pydantic"):
        return {}
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {each.name: _docstrings(each) for each in tree.body if isinstance(each, ast.ClassDef)}


def _docstrings(owner: ast.ClassDef) -> dict[str, str]:
    """The docstring below each attribute of a class that has one."""
    found: dict[str, str] = {}
    for attribute, below in pairwise(owner.body):
        match attribute, below:
            case (
                ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = inspect.cleandoc(text)
    return found
