"""The command line: one module per command, imported only when it is called.

A command's module, `cli/<name>.py`, holds either a function of the command's name or, where it has
subcommands, a `typer.Typer` called `app`.  Modules import what is heavy inside their functions, so that
`hopscope decode` and `hopscope --help` start in a fraction of a second.

Exit status: 0; 1 if something was found that should not be (see each command); 2 for errors in the usage
or the environment.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ..base import kernel_cache
from ..base.errors import HopscopeError
from . import announce

GROUPS = {
    "Collect": ("collect", "sink", "translate", "label", "replay"),
    "Query": ("query", "top", "direct", "decode"),
    "Simulate": ("demo", "simulate", "samples", "fabric", "plan", "craft"),
    "Tools": ("config", "check", "warmup", "dissector", "version"),
}
"""Commands by what they are for, in the order of `hopscope --help`."""
COMMANDS = tuple(name for names in GROUPS.values() for name in names)
FOLDERS = ("demo", "direct", "fabric", "label", "plan", "query")
"""Commands with a folder of their own, in whose `command.py` they are."""


def build(names: tuple[str, ...] = COMMANDS) -> typer.Typer:
    """The application with these commands; fewer start faster."""

    class Grouped(TyperGroup):
        """Commands in groups, in our order."""

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

    app = typer.Typer(
        name="hopscope",
        cls=Grouped,
        help="In-band Network Telemetry (INT) collector: reports in; events, history and answers out.",
        no_args_is_help=True,
        rich_markup_mode=None,  # brackets in a help text are brackets
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
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
        folder = "." + name + (".command" if name in FOLDERS else "")
        module = import_module(folder, __name__)
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name)
        else:
            app.command(name)(getattr(module, name))
    return app


def _version(asked: bool) -> None:
    if asked:
        from .version import version

        version()
        sys.exit(0)


def main() -> None:
    """Entry point of `hopscope`: errors are one line on stderr, never a traceback."""
    asked = next((word for word in sys.argv[1:] if not word.startswith("-")), None)
    kernel_cache.notices.append(announce.kernel)
    try:
        build((asked,) if asked in COMMANDS else COMMANDS)(prog_name="hopscope")
    except HopscopeError as error:
        _end(str(error), error.status)
    except BrokenPipeError:
        # the reader of our output is gone (`| head`): not an error; nor may the interpreter's flush be one
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        if os.environ.get("HOPSCOPE_DEBUG"):
            raise
        where = f"{error.filename}: " if error.filename is not None else ""
        _end(f"{where}{error.strerror or error}", 2)
    except KeyboardInterrupt:
        sys.exit(130)


def _end(line: str, status: int) -> None:
    for part in line.splitlines():
        print(f"hopscope: {part}", file=sys.stderr)
    sys.exit(status)
