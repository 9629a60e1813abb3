"""Write docs/reference/ from the code: settings, commands, counters, refusals, events, records.

Run `python docs/reference.py` after a change; `tests/test_docs.py` fails when a page differs from what this
would write.
"""

from __future__ import annotations

import os
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

FOLDER = Path(__file__).parent / "reference"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    def clean(cell: str) -> str:
        return " ".join(cell.split()).replace("|", "\\|")

    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(clean(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _type_name(annotation: object) -> str:
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _type_name(typing.get_args(annotation)[0])
    if origin is typing.Literal:
        return " or ".join(f"`{value}`" for value in typing.get_args(annotation))
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_type_name(a) for a in typing.get_args(annotation))
    if origin is tuple:
        return f"list of {_type_name(typing.get_args(annotation)[0])}"
    if origin is dict:
        return "tables"
    if annotation is type(None):
        return "none"
    return getattr(annotation, "__name__", str(annotation)).lower()


def _nested(annotation: object) -> tuple[type[BaseModel], str] | None:
    """Give the settings model inside an annotation, and `[]` where it is a list of them, `.NAME` where names
    lead to them.
    """
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, ""
    arguments = typing.get_args(annotation)
    if typing.get_origin(annotation) is dict:
        return arguments[1], ".NAME"
    if typing.get_origin(annotation) is types.UnionType:
        return _nested(arguments[0])
    if arguments and isinstance(arguments[0], type) and issubclass(arguments[0], BaseModel):
        return arguments[0], "[]"
    return None


def _settings_rows(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, ...]]:
    for name, field in model.model_fields.items():
        key = f"{prefix}{name}"
        if nested := _nested(field.annotation):
            yield (f"`{key}{nested[1]}`", "table", "", field.description or "")
            yield from _settings_rows(nested[0], f"{key}{nested[1]}.")
            continue
        if field.default is PydanticUndefined:
            default = "user's data folder" if key == "data" else "required"
        else:
            default = "none" if field.default is None else f"`{field.default}`"
        yield (f"`{key}`", _type_name(field.annotation), default, field.description or "")


def settings() -> str:
    """Every setting."""
    from hopscope.config import Settings

    return (
        "# Settings\n\nA setting is a key of the TOML file (`hopscope collect --config FILE`), or an "
        "environment variable: `detect.flow_rows` is `HOPSCOPE_DETECT__FLOW_ROWS`. "
        "Flags win over the environment, the "
        "environment over the file, the file over the defaults. `[]` marks a list of tables (`[[listen]]`), "
        "`NAME` a name of your own (`[dialects.mine]`). "
        "An unknown key stops the start.\n\n"
        + _table(("key", "type", "default", "meaning"), list(_settings_rows(Settings)))
    )


def counters() -> str:
    """Every counter."""
    from hopscope.metrics import COUNTERS

    rows = [
        (f"`hopscope_{c.name}`", f"`{c.label[0]}={c.label[1]}`" if c.label else "", c.help) for c in COUNTERS
    ]
    return (
        "# Counters\n\nCounted by every worker, summed in `/metrics`, `hopscope top` and the summary at a "
        "program's end.\n\n" + _table(("counter", "label", "meaning"), rows)
    )


def _enum_docs(source: Path, class_name: str) -> dict[str, str]:
    """Docstrings below the members of an enumeration, which Python itself does not keep."""
    import ast

    tree = ast.parse(source.read_text())
    body = next(n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and n.name == class_name).body
    docs: dict[str, str] = {}
    for statement, follower in zip(body, [*body[1:], None], strict=True):
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            text = ""
            if isinstance(follower, ast.Expr) and isinstance(follower.value, ast.Constant):
                text = str(follower.value.value)
            docs[statement.targets[0].id] = text
    return docs


def _enum_table(enumeration: typing.Any, module: typing.Any) -> str:
    docs = _enum_docs(Path(module.__file__), enumeration.__name__)
    return _table(
        ("name", "code", "meaning"),
        [(f"`{m.label}`", str(int(m)), docs.get(m.name, "")) for m in enumeration],
    )


def refusals() -> str:
    """Every reason of a refusal, and every place."""
    from hopscope.wire import reasons

    return (
        "# Refusals\n\nA frame on a report port that cannot be read is refused, with one of these reasons, "
        "and the header that was being read. The same names are in `hopscope decode`, in `/metrics` "
        '(`hopscope_refused_reports_total{reason="…"}`) and on the live page.\n\n## Reasons\n\n'
        + _enum_table(reasons.Reason, reasons)
        + "\n## Places\n\n"
        + _enum_table(reasons.Place, reasons)
    )


def _field_comments(module: typing.Any, record: str) -> dict[str, str]:
    """Comments behind the fields of a record's declaration."""
    lines = Path(module.__file__).read_text().split(f"\n{record} = ", 1)[1].split("\n)\n", 1)[0].splitlines()
    found = (re.match(r'\s*\("(\w+)", .*\),\s*# (.*)', line) for line in lines)
    return {match[1]: match[2] for match in found if match}


def _record_table(module: typing.Any, record: str) -> str:
    dtype: np.dtype[typing.Any] = getattr(module, record)
    assert dtype.fields is not None
    comments = _field_comments(module, record)
    rows = []
    for name in dtype.names or ():
        field, offset = dtype.fields[name][:2]
        shape = f" × {field.shape[0]}" if field.shape else ""
        rows.append((f"`{name}`", str(offset), f"{field.base.name}{shape}", comments.get(name, "")))
    return _table(("field", "byte", "type", "meaning"), rows)


def events() -> str:
    """Every kind of event, every metric, and the record."""
    from hopscope.detect import records

    return (
        "# Events\n\n## Kinds\n\n"
        + _enum_table(records.Kind, records)
        + "\n## Metrics\n\n"
        + _enum_table(records.Metric, records)
        + f"\n## The record\n\nRings, journals and segments hold this record: {records.EVENT.itemsize} "
        f"bytes, little-endian, version {records.EVENT_VERSION}. "
        "Addresses are IPv6, or IPv4 as ::ffff:a.b.c.d.\n\n" + _record_table(records, "EVENT")
    )


def records() -> str:
    """The record blocks that pass between rooms."""
    from hopscope.detect import records as state
    from hopscope.wire import records as wire

    parts = [
        "# Records\n\nFixed-width records, little-endian, as the library gives them and regions hold them.\n"
    ]
    for module, names in (
        (wire, ("FRAME", "REPORT", "HOP")),
        (state, ("FLOW_ROW", "FLOW", "HOP_STATE", "PORT", "SOURCE", "THRESHOLD")),
    ):
        for name in names:
            size = getattr(module, name).itemsize
            parts.append(f"\n## {name}\n\n{size} bytes.\n\n{_record_table(module, name)}")
    return "".join(parts)


def commands() -> str:
    """Every command's help."""
    os.environ.update(COLUMNS="100", NO_COLOR="1", TERM="dumb")
    import click
    import typer

    from hopscope.cli import build

    root = typer.main.get_command(build())
    parts = ["# Commands\n\nEvery command says what it can do with `--help`; this is that text.\n"]

    def walk(command: typing.Any, path: str) -> None:
        context = click.Context(command, info_name=path, terminal_width=100, max_content_width=100)
        parts.append(f"\n## {path}\n\n{_command_help(command, context)}")
        if hasattr(command, "list_commands"):
            for name in command.list_commands(context):
                child = command.get_command(context, name)
                if not child.hidden:
                    walk(child, f"{path} {name}")

    walk(root, "hopscope")
    return "".join(parts)


def _command_help(command: typing.Any, context: typing.Any) -> str:
    rows = []
    for parameter in command.params:
        if getattr(parameter, "hidden", False):
            continue
        names = ", ".join(f"`{o}`" for o in [*parameter.opts, *parameter.secondary_opts])
        if parameter.param_type_name == "argument":
            names = f"`{(parameter.metavar or parameter.name).upper()}`"
        rows.append((names, getattr(parameter, "help", None) or ""))
    text = (command.help or "").strip() + "\n"
    return text + ("\n" + _table(("option", "meaning"), rows) if rows else "")


PAGES: dict[str, Callable[[], str]] = {
    "settings.md": settings,
    "counters.md": counters,
    "refusals.md": refusals,
    "events.md": events,
    "records.md": records,
    "commands.md": commands,
}


def main() -> int:
    """Write every page; with `--check`, only say which would change."""
    check = "--check" in sys.argv[1:]
    stale = []
    FOLDER.mkdir(exist_ok=True)
    for name, make in PAGES.items():
        text, path = make(), FOLDER / name
        if not path.exists() or path.read_text() != text:
            stale.append(name)
            if not check:
                path.write_text(text)
    print("\n".join(stale) or "nothing to do")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
