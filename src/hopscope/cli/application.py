"""All commands as one application; its errors are one line on stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ..base.errors import HopscopeError
from ..base.kernels import announce
from . import completion
from .options.declare import Commands

_COLLECT = "collect sink switch control limits cluster lake translate label replay"
_REFUSED = ("Out of Memory", "can't start new thread", "failed to map segment")
"""Parts of messages of the interpreter, DuckDB and the dynamic loader."""
GROUPS = {
    "Collect": tuple(_COLLECT.split()),
    "Query": ("query", "top", "open", "direct", "decode"),
    "Simulate": ("demo", "simulate", "blast", "bench", "samples", "fabric", "plan", "craft"),
    "Tools": (
        "config",
        "users",
        "dashboards",
        "check",
        "doctor",
        "report-issue",
        "warmup",
        "dissector",
        "version",
    ),
}
"""Commands by purpose, in the order of `hopscope --help`."""
COMMANDS = tuple(name for names in GROUPS.values() for name in names)
FOLDERS = frozenset(
    {"cluster", "decode", "demo", "direct", "fabric", "plan", "query", "replay", "simulate", "top"}
)
"""Commands that are a package; all others are a module."""


@contextmanager
def _until_reader_leaves() -> Iterator[None]:
    """End the command silently, with status 0, once standard output has no reader (`| head`)."""
    try:
        try:
            yield
        finally:
            _flush()
    except BrokenPipeError:
        raise typer.Exit(0) from None  # with Typer the status would be 1


class _Root(TyperGroup):
    """Imports a command when it is called; `completion.json` has the `--help` texts of all commands."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.commands = dict.fromkeys(COMMANDS)  # type: ignore[assignment]

    def make_context(self, *args: Any, **more: Any) -> Any:
        with _until_reader_leaves():
            return super().make_context(*args, **more)

    def invoke(self, ctx: Any) -> Any:
        with _until_reader_leaves():
            return super().invoke(ctx)

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in COMMANDS and self.commands[cmd_name] is None:
            self.commands[cmd_name] = _load(cmd_name)
        return self.commands.get(cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        described = completion.load()["commands"]
        width = max(map(len, COMMANDS))
        for title, names in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), described[name]["help"]) for name in names])


def build() -> Commands:
    """The application."""
    app = _commands(
        name="hopscope",
        cls=_Root,
        help="In-band Network Telemetry (INT) collector: reports in; events, history and answers out.",
    )

    @app.callback()
    def root(
        version: Annotated[
            bool,
            typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_version),
        ] = False,
    ) -> None:
        pass

    return app


def _load(name: str) -> Any:
    """One command, or group of commands."""
    function = name.replace("-", "_")
    module = import_module(f"..{function}" + ".command" * (name in FOLDERS), __name__)
    app = _commands()
    if hasattr(module, "app"):
        app.add_typer(module.app, name=name)
    else:
        app.command(name)(getattr(module, function))
    return typer.main.get_group(app).commands[name]


def _commands(**more: Any) -> Commands:
    """A group of commands in which help texts have literal brackets, and `run` prints errors."""
    return Commands(rich_markup_mode=None, pretty_exceptions_enable=False, **more)


def _version(given: bool) -> None:
    if given:
        from .version import version

        version()
        sys.exit(0)


def run() -> None:
    """Run the command of this process's arguments: errors are one line on stderr, never a traceback."""
    announce.enable()
    try:
        build()(prog_name="hopscope")
    except HopscopeError as error:
        _end(_with_advice(str(error), error.__cause__), error.status)
    except OSError as error:
        if os.environ.get("HOPSCOPE_DEBUG"):
            raise
        _end(_described(error), 2)
    except KeyboardInterrupt:
        _end("", 130)
    except Exception as error:
        if os.environ.get("HOPSCOPE_DEBUG") or not _lacks_memory(error):
            raise
        _end("memory or threads are too few for this command: `ulimit -a` shows the limits of this user", 2)


def _described(error: OSError) -> str:
    """The error in one line."""
    reason = error.strerror or str(error)
    if error.filename is not None:
        return _with_advice(f"{error.filename}: {reason}", error)
    try:
        Path.cwd()
    except FileNotFoundError:
        return "the current folder was deleted: change to another one"
    return reason


def _with_advice(text: str, cause: BaseException | None) -> str:
    """The text of an error; if this user may not open a file, it says who may."""
    if not isinstance(cause, PermissionError) or not isinstance(cause.filename, (str, Path)):
        return text
    from ..runtime.checks.other_user import who_may

    return "; ".join(filter(None, (text, who_may(Path(cause.filename).absolute()))))


def _lacks_memory(error: Exception) -> bool:
    """Whether the system refused memory or a thread; DuckDB and the loader raise other errors."""
    return isinstance(error, MemoryError) or any(text in str(error) for text in _REFUSED)


def _flush() -> None:
    """Write buffered output. If that fails, discard it, so that the interpreter does not fail at exit."""
    if sys.stdout is None:  # it is closed
        return
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise


def _end(line: str, status: int) -> None:
    for part in line.splitlines():
        print(f"hopscope: {part}", file=sys.stderr)
    sys.exit(status)
