"""`hopscope config`: look at settings, check a file, write one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..settings.section import item_section, section_of
from .options.declare import Commands, argument, option
from .options.settings import SettingsOptions
from .output.printer import Format, FormatOption

if TYPE_CHECKING:
    from ..settings.configuration.file import Loaded

app = Commands(help="Show, check and write settings.")


@app.command()
def show(settings: SettingsOptions) -> None:
    """Print the effective settings as TOML, with their origin but without passwords and tokens."""
    print(shown_settings(settings.loaded()))


def shown_settings(loaded: Loaded) -> str:
    """Settings as TOML with their origins, without secrets."""
    from ..settings.configuration.secrets import shown_tree

    tree = shown_tree(loaded.settings)
    tree["dialects"] = {
        name: dialect.model_dump(mode="json", exclude_none=True)
        for name, dialect in loaded.settings.dialects.items()
    }
    tree["detect"]["switches"] = [switch.given() for switch in loaded.settings.detect.switches]
    head = f"# {loaded.file}" if loaded.file else "# no file"
    return "\n".join([head, *toml_lines(tree, loaded.origins)])


@app.command()
def check(
    file: Path | None = argument("FILE", "TOML file; default: the file that `collect` reads.", None),
    connect: bool = option(
        "--connect", "Also try every source and destination, and print what is wrong with it.", False
    ),
    form: FormatOption = Format.TABLE,
) -> None:
    """Check a settings file and print a line for every error.

    With --connect, it binds addresses, opens interfaces and contacts servers. Nothing is sent, but a
    destination creates its database or table if it is missing, as it does at a start.

    Exit status: 0; 1 if a source or destination does not work; 2 if the settings are wrong.
    """
    from ..runtime.processes.processors import check as check_processors
    from ..runtime.supervisor.requirements import check_requirements

    loaded = SettingsOptions(config=file).loaded()
    check_processors(loaded.settings)
    if not connect:
        check_requirements(loaded.settings)
        print(f"{loaded.file or 'defaults'}: good")
        return
    from ..runtime.checks.connect import connections
    from ..runtime.checks.environment import Verdict
    from .check import print_findings

    found = list(connections(loaded.settings))
    print_findings(found, form)
    raise typer.Exit(int(any(finding.verdict is Verdict.BAD for finding in found)))


@app.command()
def schema() -> None:
    """Print the JSON schema of the settings file, for editors."""
    import json

    from ..settings.configuration.json_schema import json_schema

    print(json.dumps(json_schema(), indent=2, ensure_ascii=False))


@app.command()
def init(
    file: Path | None = argument("FILE", "File to write; - for stdout.", None),
    force: bool = option("--force", "Overwrite the file.", False),
) -> None:
    """Write a settings file with every default, commented out."""
    from ..base.output import write_output
    from ..settings.configuration.errors import ConfigError
    from ..settings.configuration.places import default_file

    text = "\n".join(_template())
    if file is not None and str(file) == "-":
        print(text)
        return
    file = file or default_file()
    if file.exists() and not force:
        raise ConfigError(f"{file} exists; --force overwrites it")
    file.parent.mkdir(parents=True, exist_ok=True)
    write_output(file, text + "\n")
    print(f"wrote {file}", file=sys.stderr)


@app.command()
def dialects(settings: SettingsOptions) -> None:
    """List the dialects, including your own."""
    import shutil
    import textwrap

    from ..settings.dialects import known

    found = known(settings.load().dialects)
    width = max(map(len, found)) + 2
    for dialect in found.values():
        room = max(40, shutil.get_terminal_size((100, 24)).columns - width)
        print(
            textwrap.fill(
                dialect.about, room + width, initial_indent=f"{dialect.name:<{width}}",
                subsequent_indent=" " * width,
            )
        )  # fmt: skip
    print(f"{'auto':<{width}}Choose by the first reports.")


def _value(value: Any) -> str:
    """A TOML value; None becomes the word that settings use for it."""
    import json

    if value is None:
        return '"never"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        given = {key: item for key, item in value.items() if item is not None}
        return "{ " + ", ".join(f"{_key(key)} = {_value(item)}" for key, item in given.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    return str(value) if isinstance(value, int | float) else json.dumps(str(value), ensure_ascii=False)


def _key(key: str) -> str:
    """A key of a TOML table, quoted if it must be."""
    import json

    return key if key.replace("_", "").replace("-", "").isalnum() and key.isascii() else json.dumps(key)


def _optional(key: str) -> bool:
    """Whether a setting without a value is omitted; thresholds use the word `never` instead."""
    return ".thresholds." not in key


def toml_lines(tree: dict[str, Any], origins: dict[str, str], above: tuple[str, ...] = ()) -> Iterator[str]:
    """A tree of settings as TOML, with the origin of each setting, if known."""
    tables = {key: value for key, value in tree.items() if isinstance(value, dict)}
    if above and len(tables) < len(tree):
        yield f"\n[{'.'.join(map(_key, above))}]"
    for key, value in tree.items():
        path = ".".join((*above, key))
        if key in tables:
            continue
        if value is None and _optional(path):
            yield f"# {key} is not set"
            continue
        origin = f"  # {origins[path]}" if path in origins else ""
        yield f"{_key(key)} = {_value(value)}{origin}"
    for key, value in tables.items():
        yield from toml_lines(value, origins, (*above, key))


def _template() -> Iterator[str]:
    from ..settings.collector import Settings
    from ..settings.configuration.file import OPEN, walk

    yield "# Settings of Hopscope. Every line that is commented out shows a default."
    yield "# `hopscope config check --connect` tries them; editors take `hopscope config schema`."
    models: dict[str, Any] = {"": Settings}
    values: dict[str, Any] = {"": Settings().model_dump(mode="json")}
    tables: list[str] = []
    for key, described in walk(Settings):
        meaning = " ".join(described.split())
        above, _, last = key.rpartition(".")
        field, unset = models[above].model_fields[last], values[above] is None
        value = field.get_default() if unset else values[above][last]
        if section := section_of(field.annotation):
            models[key], values[key] = section, value
            yield f"\n# {meaning}\n# [{key}]" if value is None else f"\n[{key}]\n# {meaning}"
        elif item := item_section(field.annotation):
            tables += _table(f"[{key}.NAME]" if key in OPEN else f"[[{key}]]", meaning, item)
        elif unset:  # of a section that is switched off
            yield f"# {meaning}\n#   {last} =" + ("" if field.is_required() else f" {_value(value)}")
        elif value is None and _optional(key):
            yield f"# {meaning}\n# {last} ="
        else:
            yield f"# {meaning}\n# {last} = {_value(value)}"
    yield from tables


def _table(head: str, meaning: str, model: Any) -> Iterator[str]:
    """One table of a list or of tables by name, commented out."""
    from ..settings.configuration.descriptions import descriptions

    described = descriptions(model)
    yield f"\n# {meaning}\n# {head}"
    for name, field in model.model_fields.items():
        about = " ".join(described[name].split())
        if section := item_section(field.annotation) or section_of(field.annotation):
            yield f"# {about}\n#   {name}: a table of {', '.join(section.model_fields)}"
            continue
        value = None if field.is_required() else field.get_default()
        yield f"# {about}\n#   {name} =" + ("" if value is None else f" {_value(value)}")
