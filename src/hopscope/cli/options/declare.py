"""Options as fields of dataclasses: a group of `--help` is declared once and used by many commands."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import wraps
from typing import Annotated, Any, ClassVar, TypeVar, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand
from typer.models import ParameterInfo

from .values import WORDS

F = TypeVar("F", bound=Callable[..., None])
Flag = tuple[str, str, Any]
"""An option, the setting that it sets, and the value; None: the option was not given."""


def option(flags: str, help: str, default: Any = None, *, sets: str | Key | None = None, **more: Any) -> Any:
    """An option: the default of a field of `Options` or of a command's parameter, or, where several of these
    share it, the annotation of their type.

    `flags` are its names and placeholder, such as "--limit -n N". The placeholder also selects the words that
    complete the value in a shell (`values`). `show_default` describes a default set elsewhere. `sets` is the
    setting that the option sets.
    """
    names = [word for word in flags.split() if word.startswith("-")]
    placeholder = " ".join(flags.split()[len(names) :]) or None
    words = WORDS.get(placeholder or "")
    info = typer.Option(..., *names, help=help, metavar=placeholder, autocompletion=words, **more)
    return _field(info, default, Key(sets) if isinstance(sets, str) else sets)


def argument(placeholder: str, help: str, default: Any = ..., **more: Any) -> Any:
    """Like `option`, for an argument without a name."""
    return _field(typer.Argument(..., metavar=placeholder or None, help=help, **more), default)


def _field(info: ParameterInfo, default: Any, sets: Key | None = None) -> Any:
    return field(default=MISSING if default is ... else default, metadata={"declared": (info, sets)})


def _declared(default: Any, hint: Any) -> tuple[Any, Key | None] | None:
    """What `option` or `argument` declared, in a default or in the annotation of a type."""
    found = (each for each in (default, *get_args(hint)) if isinstance(each, Field) and each.metadata)
    return next((each.metadata["declared"] for each in found), None)


@dataclass(frozen=True)
class Key:
    """A setting that an option sets; `convert` gets the flag and its value."""

    path: str
    convert: Callable[[str, Any], Any] = lambda flag, given: given


@dataclass(frozen=True)
class Options:
    """A group of options. The default of each field is an `option`, or its type is annotated with one."""

    title: ClassVar[str] = "Options"
    """Heading of the group in `--help`."""

    def flags(self) -> list[Flag]:
        """The settings of this group. Raises HopscopeError for a value that cannot be read."""
        return list(self._flags())

    def _flags(self) -> Iterator[Flag]:
        hints = get_type_hints(type(self), include_extras=True)
        for each in fields(self):
            info, key = _declared(each, hints[each.name]) or (None, None)
            if info and key:
                flag, given = info.param_decls[0], getattr(self, each.name)
                absent = given is None or given is False or given == []
                yield flag, key.path, None if absent else key.convert(flag, given)


class GroupedCommand(TyperCommand):
    """A command whose `--help` lists options by group."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Like Typer's, but `--json` is short for `--format json` if the command has that, and errors are in
        Hopscope's words instead of Pydantic's.
        """
        form = next((parameter.name for parameter in self.params if "--format" in parameter.opts), None)
        if form and "--json" in args:
            args = [arg for arg in args if arg != "--json"]
            given = self.make_parser(ctx).parse_args([*args])[0].get(form, "json")
            if given.lower() != "json":
                raise typer.BadParameter(f"cannot be used with --format {given}", ctx, None, "--json")
            args = ["--format", "json", *args]
        try:
            rest = super().parse_args(ctx, args)
            for parameter in self.params:
                given = ctx.params.get(parameter.name)
                if isinstance(given, float) and not math.isfinite(given):
                    raise typer.BadParameter(f"{given} is no finite number", ctx, parameter)  # type: ignore[arg-type]
            return rest
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ").replace("Input should be", "expected")
            raise

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, the command's own options, then the groups."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], Options.title: []}
        for parameter in self.get_params(ctx):
            title = getattr(parameter, "rich_help_panel", None) or Options.title
            title = "Arguments" if parameter.param_type_name == "argument" else title
            if (record := parameter.get_help_record(ctx)) is not None:
                sections.setdefault(title, []).append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class Commands(typer.Typer):
    """Commands whose parameters may be groups of options."""

    def __init__(self, **more: Any) -> None:
        context = {"help_option_names": ["-h", "--help"]}
        super().__init__(no_args_is_help=True, context_settings=context, **more)

    def command(self, name: str | None = None, **more: Any) -> Callable[[F], F]:
        """Like Typer's, for functions that `grouped` accepts."""
        register = super().command(name, cls=GroupedCommand, **more)

        def add(function: F) -> F:
            register(grouped(function))
            return function

        return add


def grouped(function: Callable[..., None]) -> Callable[..., None]:
    """A command with an option for every field of its parameters that are `Options`.

    The default of such a parameter, an instance, has the defaults of the options.
    """
    hints = get_type_hints(function, include_extras=True)
    shown: list[inspect.Parameter] = []
    groups: dict[str, tuple[type, list[str]]] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        group = hints[name]
        if not is_dataclass(group):
            shown.append(_parameter(name, group, parameter.default, parameter.default))
            continue
        assert isinstance(group, type)
        assert issubclass(group, Options)
        defaults = group() if parameter.default is parameter.empty else parameter.default
        types = get_type_hints(group, include_extras=True)
        groups[name] = group, [each.name for each in fields(group)]
        for each in fields(group):
            default = getattr(defaults, each.name)
            shown.append(_parameter(each.name, types[each.name], each, default, group.title))

    @wraps(function)
    def command(**given: Any) -> None:
        made = {
            name: group(**{key: given.pop(key) for key in keys}) for name, (group, keys) in groups.items()
        }
        function(**made, **given)

    command.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    return command


def _parameter(
    name: str, hint: Any, declared: Any, default: Any, title: str | None = None
) -> inspect.Parameter:
    """A parameter as Typer reads it; `declared` or the annotation of its type is what `option` returned."""
    kind = inspect.Parameter.KEYWORD_ONLY
    if (found := _declared(declared, hint)) is None:
        return inspect.Parameter(name, kind, default=default, annotation=hint)
    info = copy(found[0])
    given = default.default if isinstance(default, Field) else default
    info.default = ... if given in (MISSING, inspect.Parameter.empty) else given
    info.rich_help_panel = title
    plain = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    return inspect.Parameter(name, kind, default=info, annotation=plain)
