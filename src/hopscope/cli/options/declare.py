"""Options as fields of dataclasses: a group of `--help` is declared once and used by many commands."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from typing import Annotated, Any, ClassVar, TypeVar, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand
from typer.models import OptionInfo

from .values import WORDS

F = TypeVar("F", bound=Callable[..., None])
Flag = tuple[str, str, Any]
"""An option, the setting that it sets, and the value; None: the option was not given."""


def option(*names: str, help: str, metavar: str | None = None, **more: Any) -> Any:
    """An option; `show_default` may be a text that describes a default set elsewhere.

    `metavar` also selects the words that complete the value in a shell (`values`).
    """
    words = WORDS.get(metavar or "")
    return typer.Option(*names, help=help, metavar=metavar, autocompletion=words, **more)


@dataclass(frozen=True)
class Key:
    """Annotates an option that sets a setting; `convert` gets the flag and its value."""

    path: str
    convert: Callable[[str, Any], Any] = lambda flag, given: given


@dataclass(frozen=True)
class Options:
    """A group of options. Fields are `Annotated[type, option(...)]`, with a `Key` if they set a setting."""

    title: ClassVar[str] = "Options"
    """Heading of the group in `--help`."""

    def flags(self) -> list[Flag]:
        """The settings of this group. Raises HopscopeError for a value that cannot be read."""
        return list(self._flags())

    def _flags(self) -> Iterator[Flag]:
        for name, hint in get_type_hints(type(self), include_extras=True).items():
            if get_origin(hint) is not Annotated:
                continue
            # Typer takes the first name of an annotated option for `default`
            flag = next(str(each.default) for each in get_args(hint) if isinstance(each, OptionInfo))
            for key in (each for each in get_args(hint) if isinstance(each, Key)):
                given = getattr(self, name)
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
            shown.append(parameter.replace(annotation=group, kind=parameter.KEYWORD_ONLY))
            continue
        assert isinstance(group, type)
        assert issubclass(group, Options)
        defaults = group() if parameter.default is parameter.empty else parameter.default
        types = get_type_hints(group, include_extras=True)
        groups[name] = group, [field.name for field in fields(group)]
        for field in groups[name][1]:
            hint = _titled(types[field], group.title)
            kind = inspect.Parameter.KEYWORD_ONLY
            shown.append(inspect.Parameter(field, kind, default=getattr(defaults, field), annotation=hint))

    @wraps(function)
    def command(**given: Any) -> None:
        made = {
            name: group(**{key: given.pop(key) for key in keys}) for name, (group, keys) in groups.items()
        }
        function(**made, **given)

    command.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    return command


def _titled(hint: Any, title: str) -> Any:
    """An annotated type whose option is listed below this title."""
    kind, *rest = get_args(hint)
    titled = []
    for each in rest:
        if isinstance(each, OptionInfo):
            each = copy(each)
            each.rich_help_panel = title
        titled.append(each)
    return Annotated[kind, *titled]
