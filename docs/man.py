"""Write man pages from the commands: `python docs/man.py FOLDER` makes FOLDER/man1/*.1 and FOLDER/man5/*.5.

There is one page for `hopscope`, one for each command with its subcommands, and one for the settings.
"""

from __future__ import annotations

import os
import re
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import typer
from pydantic import BaseModel

from hopscope.base.version import VERSION
from hopscope.cli.application import GROUPS, build
from hopscope.settings.collector import Settings
from hopscope.settings.configuration.descriptions import descriptions
from hopscope.settings.destinations.common import ExportSettings
from hopscope.settings.destinations.kinds import EXPORT_KINDS, METRICS_KINDS
from hopscope.settings.destinations.metrics import MetricsSettings
from hopscope.settings.names_from import DEVICE_KINDS, DeviceSettings
from hopscope.settings.section import item_section, section_of
from hopscope.settings.switches import CONTROLLED_KINDS, ControlledSettings

FILES = (
    ("/etc/hopscope/hopscope.toml", "Settings of the service hopscope."),
    ("~/.config/hopscope/config.toml", "Settings of a user; hopscope.toml in the current folder goes first."),
    ("/var/lib/hopscope", "Data folder of the service: history, and sockets."),
    ("~/.local/share/hopscope", "Data folder of a user."),
)
VARIABLES = (
    ("HOPSCOPE_CONFIG", "The file of settings."),
    ("HOPSCOPE_SECTION__KEY", "Any setting, as HOPSCOPE_SERVE__PORT."),
    ("HOPSCOPE_KERNEL_CACHE", "Folder of compiled kernels."),
    ("NO_COLOR", "No colours."),
)


def pages() -> dict[str, str]:
    """Every page by its path, as `man1/hopscope.1`."""
    root = typer.main.get_command(build())
    context = click.Context(root, info_name="hopscope")
    commands: dict[str, Any] = {name: root.get_command(context, name) for name in root.list_commands(context)}
    found = {"man1/hopscope.1": _main_page(root, context, commands)}
    for name, command in commands.items():
        found[f"man1/hopscope-{name}.1"] = _command_page(name, command)
    found["man5/hopscope.toml.5"] = _settings_page()
    return found


def _main_page(root: Any, context: click.Context, commands: Mapping[str, Any]) -> str:
    lines = [*_head("hopscope", 1, root.help), ".SH SYNOPSIS", r".B hopscope", "COMMAND", "[ARGUMENTS]"]
    lines += [".SH DESCRIPTION", _text(root.help)]
    for title, names in GROUPS.items():
        lines += [f".SS {_safe(title)}"]
        for name in names:
            lines += [
                ".TP",
                f".BR {_word(f'hopscope-{name}')} (1)",
                _text(commands[name].get_short_help_str(200)),
            ]
    lines += [".SH OPTIONS", *_options(root, context), *_ending(["hopscope.toml(5)"])]
    return "\n".join(lines) + "\n"


def _command_page(name: str, command: Any) -> str:
    path = f"hopscope {name}"
    context = click.Context(command, info_name=path)
    lines = [*_head(f"hopscope-{name}", 1, command.get_short_help_str(200)), ".SH SYNOPSIS"]
    lines += _synopsis(command, context)
    lines += [".SH DESCRIPTION", *_paragraphs(command.help or "")]
    if hasattr(command, "list_commands"):
        lines += [".SH COMMANDS"]
        for child in command.list_commands(context):
            each = command.get_command(context, child)
            if not each.hidden:
                inner = click.Context(each, info_name=f"{path} {child}")
                lines += [f".SS {_safe(f'{path} {child}')}", *_synopsis(each, inner)]
                lines += [".PP", *_paragraphs(each.help or ""), *_options(each, inner)]
    else:
        lines += [".SH OPTIONS", *_options(command, context)]
    return "\n".join([*lines, *_ending(["hopscope(1)", "hopscope.toml(5)"])]) + "\n"


def _settings_page() -> str:
    lines = [*_head("hopscope.toml", 5, "settings of Hopscope"), ".SH DESCRIPTION"]
    lines += [
        _text(
            "The file is TOML. An environment variable sets a key, too: serve.port is HOPSCOPE_SERVE__PORT. "
            "Flags win over the environment, the environment over the file. An unknown key is an error."
        ),
        ".PP",
        _text(
            "A password or token may be env:NAME, a variable, or file:PATH, the first line of a file. "
            "hopscope config init writes a file with all defaults, commented out; hopscope config check "
            "--connect tries it."
        ),
        ".SH SETTINGS",
        *_settings(Settings, ""),
    ]
    tables: list[tuple[str, type[BaseModel], Mapping[str, type[BaseModel]]]] = [
        ("export", ExportSettings, EXPORT_KINDS),
        ("metrics", MetricsSettings, METRICS_KINDS),
        ("names_from", DeviceSettings, DEVICE_KINDS),
        ("switches", ControlledSettings, CONTROLLED_KINDS),
    ]
    for table, common, kinds in tables:
        for kind, model in kinds.items():
            own = [key for key in model.model_fields if key not in common.model_fields]
            lines += [f".SS {_safe(f'{table}.NAME with kind = {kind}')}", *_paragraphs(model.__doc__ or "")]
            lines += [line for key in own for line in _setting(model, key, f"{table}.NAME.")]
    return "\n".join([*lines, *_ending(["hopscope(1)", "hopscope-config(1)"])]) + "\n"


def _settings(model: type[BaseModel], above: str) -> Iterator[str]:
    """Values first, then each section below a heading of its own."""
    inner: list[tuple[str, str, type[BaseModel]]] = []
    about = descriptions(model)
    for key, field in model.model_fields.items():
        listed = item_section(field.annotation)
        if section := section_of(field.annotation) or listed:
            suffix = "" if not listed else ".NAME" if field.default == {} else "[]"
            inner.append((f"{above}{key}{suffix}", about[key], section))
        else:
            yield from _setting(model, key, above)
    for key, text, section in inner:
        yield f".SS {_safe(key)}"
        yield from _paragraphs(text)
        yield from _settings(section, f"{key}.")


def _setting(model: type[BaseModel], key: str, above: str) -> Iterator[str]:
    field = model.model_fields[key]
    yield ".TP"
    yield _bold(above + key)
    default = (
        ""
        if field.is_required() or field.default in (None, "") or field.default_factory
        else str(field.default)
    )
    yield _text(" ".join(descriptions(model)[key].split()) + (f" Default: {default}." if default else ""))


def _head(name: str, section: int, about: str | None) -> list[str]:
    short = " ".join((about or "").split()).split(". ")[0].rstrip(".")
    title = name.upper().replace("-", r"\-")
    return [
        rf'.TH "{title}" {section} "{_date()}" "Hopscope {VERSION}" "Hopscope"',
        ".ad l",
        ".nh",
        ".SH NAME",
        rf"{_word(name)} \- {_safe(short)}",
    ]


def _date() -> str:
    """Today, or the day of SOURCE_DATE_EPOCH, so that a build can be repeated."""
    seconds = float(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))


def _synopsis(command: Any, context: click.Context) -> list[str]:
    pieces = command.collect_usage_pieces(context)
    return [_bold(str(context.info_name)), *(_text(piece) for piece in pieces)]


def _options(command: Any, context: click.Context) -> Iterator[str]:
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is None or getattr(parameter, "hidden", False):
            continue
        yield ".TP"
        yield _bold(record[0])
        yield _text(" ".join(record[1].split())) or "\\&"


def _ending(also: list[str]) -> Iterator[str]:
    yield ".SH FILES"
    for name, about in FILES:
        yield from (".TP", f".I {_safe(name)}", _text(about))
    yield ".SH ENVIRONMENT"
    for name, about in VARIABLES:
        yield from (".TP", _bold(name), _text(about))
    yield ".SH EXIT STATUS"
    yield _text("0; 1 if something was found that should not be; 2 for errors in usage or environment.")
    yield ".SH SEE ALSO"
    for at, page in enumerate(also):
        name, section = page.rstrip(")").split("(")
        yield f".BR {_word(name)} ({section})" + ("," if at + 1 < len(also) else "")


def _paragraphs(text: str) -> Iterator[str]:
    for number, paragraph in enumerate(re.split(r"\n\s*\n", textwrap.dedent(text).strip())):
        if number:
            yield ".PP"
        yield _text(" ".join(paragraph.split()))


def _word(text: str) -> str:
    return text.replace("-", r"\-")


def _bold(text: str) -> str:
    return f".B {_safe(text)}"


def _safe(text: str) -> str:
    """Text without escapes; hyphens are those that are typed."""
    safe = text.replace("\\", r"\e").replace("-", r"\-").replace("`", r"\(ga")
    for letter, escape in (("…", "..."), ("–", r"\(en"), ("→", r"\(->"), ("µ", r"\(mc"), ("²", r"\(S2")):
        safe = safe.replace(letter, escape)
    return "".join(letter if letter.isascii() else rf"\[u{ord(letter):04X}]" for letter in safe)


def _text(text: str) -> str:
    """Lines of a page, none of which is a request."""
    safe = _safe(text)
    lines = textwrap.wrap(safe, 80, break_long_words=False, break_on_hyphens=False)
    return "\n".join(rf"\&{line}" if line.startswith((".", "'")) else line for line in lines)


def main() -> int:
    """Write all pages below the folder that is given."""
    folder = Path(sys.argv[1])
    for path, text in pages().items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
