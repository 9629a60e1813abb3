"""All commands as one application; its errors are one line on stderr."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ..base import announce
from ..base.errors import HopscopeError
from .options.declare import Commands

GROUPS = {
    "Collect": ("collect", "sink", "limits", "translate", "label", "replay"),
    "Query": ("query", "top", "open", "direct", "decode"),
    "Simulate": ("demo", "simulate", "blast", "samples", "fabric", "plan", "craft"),
    "Tools": ("config", "check", "doctor", "report-issue", "warmup", "dissector", "version"),
}
"""Commands by what they are for, in the order of `hopscope --help`."""
COMMANDS = tuple(name for names in GROUPS.values() for name in names)
FOLDERS = frozenset(
    {"decode", "demo", "direct", "fabric", "label", "plan", "query", "replay", "simulate", "top"}
)
"""Commands with a folder; the others are a module."""


def build(names: tuple[str, ...] = COMMANDS) -> Commands:
    """The application with these commands; fewer start faster."""

    class Grouped(TyperGroup):
        """Lists commands by group."""

        def list_commands(self, ctx: Any) -> list[str]:
            return list(names)

        def format_commands(self, ctx: Any, formatter: Any) -> None:
            width = max(map(len, names))
            for title, group in GROUPS.items():
                commands = [(name, self.get_command(ctx, name)) for name in group if name in names]
                if commands:
                    with formatter.section(title):
                        formatter.write_dl(
                            [
                                (name.ljust(width), each.get_short_help_str(64))
                                for name, each in commands
                                if each
                            ]
                        )

    app = Commands(
        name="hopscope",
        cls=Grouped,
        help="In-band Network Telemetry (INT) collector: reports in; events, history and answers out.",
        rich_markup_mode=None,  # brackets in a help text are brackets
        pretty_exceptions_enable=False,
    )

    @app.callback()
    def root(
        version: Annotated[
            bool,
            typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_version),
        ] = False,
    ) -> None:
        pass

    for name in names:
        function = name.replace("-", "_")
        module = import_module(f"..{function}" + ".command" * (name in FOLDERS), __name__)
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name)
        else:
            app.command(name)(getattr(module, function))
    return app


def _version(given: bool) -> None:
    if given:
        from .version import version

        version()
        sys.exit(0)


def run() -> None:
    """Run the command of this process's arguments: errors are one line on stderr, never a traceback."""
    first = next((word for word in sys.argv[1:] if not word.startswith("-")), None)
    announce.enable()
    try:
        build((first,) if first in COMMANDS else COMMANDS)(prog_name="hopscope")
    except HopscopeError as error:
        _end(str(error), error.status)
    except BrokenPipeError:
        # the reader of our output has gone (`| head`): no error, not even when the interpreter flushes
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        if os.environ.get("HOPSCOPE_DEBUG"):
            raise
        file = f"{error.filename}: " if error.filename is not None else ""
        _end(f"{file}{error.strerror or error}", 2)
    except KeyboardInterrupt:
        sys.exit(130)


def _end(line: str, status: int) -> None:
    for part in line.splitlines():
        print(f"hopscope: {part}", file=sys.stderr)
    sys.exit(status)
