"""Loading settings: flags over environment (`HOPSCOPE_SERVE__PORT`) over a file over defaults."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from ...base import toml
from ...base.errors import HopscopeError
from ..collector import Settings
from ..dialects import AUTO, known, unknown
from ..section import Section, parsed, plain_type, section_of
from .errors import ConfigError, did_you_mean, elsewhere, error_lines, origin_of
from .lines import with_lines
from .places import LOCAL_FILE, PREFIX, default_file, file_exists, variable_part, variables

_OTHER_FILES = {
    name: f"; a file with [{name}] is for `hopscope switch`: `hopscope switch check --config FILE` checks it"
    for name in ("switch", "agent")
}
"""Tables of other files, which are easily given to the wrong command."""
OPEN = ("names_from", "export", "metrics", "switches", "dialects")
"""Tables whose keys are the user's own names."""

Tree = dict[str, Any]
Keys = tuple[str, ...]
"""Where a setting is: `("detect", "flow_rows")`."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings, and where each came from."""

    settings: Settings
    file: Path | None
    """The file that was read."""
    origins: dict[str, str]
    """The file, variable or flag that set a key such as `detect.flow_rows`; other keys have their default."""


def _unnamed_file() -> Path | None:
    """The file to read if none is named: that of the current folder, else the user's, else none.

    Raises ConfigError if it is another user's, who could name hosts and files that this user does not trust.
    """
    if not file_exists(LOCAL_FILE):
        return default_file() if file_exists(default_file()) else None
    if sys.platform != "win32" and LOCAL_FILE.stat().st_uid not in (0, os.geteuid()):
        raise ConfigError(f"./{LOCAL_FILE} belongs to another user: name it with --config if you trust it")
    return LOCAL_FILE


def load(
    file: Path | None = None,
    flags: Sequence[tuple[str, str, Any]] = (),
    environment: Mapping[str, str] | None = None,
) -> Loaded:
    """Settings from all sources.

    `flags` are (flag, dotted key, value), such as `("--port", "serve.port", 80)`; None means that the flag
    was not given. A `file` that is named must exist. Raises ConfigError with a line for every error.
    """
    environment = os.environ if environment is None else environment
    if file is None and (named := environment.get(f"{PREFIX}CONFIG")):
        file = Path(named)
    if file is None:
        file = _unnamed_file()
    tree: Tree = Settings().model_dump()
    origins: dict[str, str] = {}
    tables = read_toml(file) if file is not None else {}
    layers: list[tuple[str, Keys, Any]] = [(str(file), (key,), value) for key, value in tables.items()]
    secrets = _named([layers, flags, [environment[name] for name in variables(environment)]])
    layers.extend(each for each in _variables(environment, tables) if each[0] not in secrets)
    layers.extend((flag, tuple(key.split(".")), value) for flag, key, value in flags if value is not None)
    errors: list[str] = []
    for origin, top, given in layers:
        try:
            for path, value in _leaves(top, _value(top, given, origin)):
                try:
                    _put(tree, path, _listeners(path, value, origin), origin)
                    origins[".".join(path)] = origin
                except ConfigError as error:
                    errors.append(str(error))
        except ConfigError as error:
            errors.append(str(error))
    try:
        settings = Settings.model_validate(tree)
        _check_dialects(settings, origins)
    except ValidationError as error:
        errors += error_lines(error, Settings, origins)
    except ConfigError as error:
        errors.append(str(error))
    if errors:
        raise ConfigError("\n".join(errors if file is None else with_lines(file, errors)))
    return Loaded(settings, file, origins)


def _check_dialects(settings: Settings, origins: Mapping[str, str]) -> None:
    try:
        names = [*known(settings.dialects), AUTO]
    except HopscopeError as error:
        key = str(error).split(": ", 1)[0]
        raise ConfigError(f"{origin_of(key, origins) or 'dialects'}: {error}") from error
    for at, listen in enumerate(settings.listen):
        if listen.dialect not in names:
            where = f"{origins.get('listen', 'listen')}: listen[{at}].dialect"
            raise ConfigError(f"{where}: {unknown(listen.dialect, names)}")


def parse_set(text: str) -> tuple[str, str, str]:
    """`detect.flow_rows=1024`, the value of a flag `--set`, as `load` takes it."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set {text}: expected KEY=VALUE, as in detect.flow_rows=1024")
    return f"--set {key.strip()}", key.strip(), value.strip()


def read_tables(file: Path | None) -> Tree:
    """Tables of the file that `load` reads, unchecked; empty if it is no TOML, or there is none."""
    try:
        named = os.environ.get(f"{PREFIX}CONFIG")
        file = file or (Path(named) if named else _unnamed_file())
        return read_toml(file) if file is not None else {}
    except ConfigError:
        return {}


def read_toml(file: Path) -> Tree:
    """What is in a TOML file. Raises ConfigError."""
    try:
        return toml.read_toml(file)
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise ConfigError(f"{file}: found bytes that are not text, expected TOML") from None
    except toml.TomlError as error:
        raise ConfigError(f"{file}:{error}") from error


def _leaves(path: Keys, value: Any) -> Iterator[tuple[Keys, Any]]:
    """Paths and values; a mapping is one value where the user chooses its keys."""
    if isinstance(value, Mapping) and value and (path[0] in OPEN or section_of(_annotation(path))):
        for name, inner in value.items():
            yield from _leaves((*path, name), inner)
    else:
        yield path, value


def _variables(environment: Mapping[str, str], tables: Tree) -> Iterator[tuple[str, Keys, str]]:
    """Variables with the settings that they set. A name that the user has chosen in the file may have `-`
    where the variable has `_`, since shells take no `-` in names of variables.
    """
    for name in sorted(variables(environment)):
        keys = name.removeprefix(PREFIX).lower().split("__")
        if keys[0] in OPEN and len(keys) > 1 and isinstance(own := tables.get(keys[0]), dict):
            spelled = [each for each in own if variable_part(each) == variable_part(keys[1])]
            if keys[1] not in own and spelled:
                keys[1] = spelled[0]
        yield name, tuple(keys), environment[name]


def _named(values: object) -> frozenset[str]:
    """Variables that hold secrets, named as `env:HOPSCOPE_DB_PASSWORD`: they are not settings."""
    return frozenset(re.findall(r"\benv:(\w+)", str(values)))


def _annotation(path: Keys) -> Any:
    """The declared type of a setting; None: there is no such setting."""
    kind: Any = Settings
    for part in path:
        kind = plain_type(kind)
        if get_origin(kind) is dict:
            kind = get_args(kind)[1]
            continue
        section = section_of(kind)
        if section is None or part not in section.model_fields:
            return None
        kind = section.model_fields[part].annotation
    return kind


def _put(tree: Tree, path: Keys, value: Any, origin: str) -> None:
    """Set a setting. Raises ConfigError for an unknown one, which names the closest."""
    *above, last = path
    key = ".".join(path)
    if above and above[0] in OPEN:
        _put_open(tree, above, last, value, origin)
        return
    if _annotation(path) is None:
        raise ConfigError(_unknown(key, origin))
    for part in above:
        if tree[part] is None:  # an optional section, which its first key creates
            tree[part] = {}
        tree = tree[part]
    if section_of(_annotation(path)):
        if value != {}:
            raise ConfigError(f"{origin}: {key}: found {value!r}, expected a table")
        if tree[last] is None:
            tree[last] = {}
        return
    tree[last] = value


def _put_open(tree: Tree, above: Sequence[str], last: str, value: Any, origin: str) -> None:
    """Set a key of a table whose keys are the user's own; the models check what is in it."""
    for part in above:
        tree = tree.setdefault(part, {})
        if not isinstance(tree, dict):
            raise ConfigError(f"{origin}: {'.'.join(above)}: found {tree!r}, expected a table")
    tree[last] = value


def _value(path: Keys, value: Any, origin: str) -> Any:
    """A value as the models take it. Raises ConfigError."""
    try:
        return parsed(_annotation(path), value) if isinstance(value, str) else value
    except ValueError as error:
        raise ConfigError(f"{origin}: {'.'.join(path)}: {error}") from error


def _listeners(path: Keys, value: Any, origin: str) -> Any:
    """Listeners are tables, or addresses."""
    if path != ("listen",):
        return value
    if isinstance(value, str):
        value = value.replace(",", " ").split()
    if isinstance(value, Mapping):
        raise ConfigError(
            f"{origin}: listen: found one table, expected a list of them, as [[listen]] makes it"
        )
    return [_listener(item, origin) for item in value] if isinstance(value, Sequence) else value


def _listener(item: Any, origin: str) -> Any:
    if not isinstance(item, str):
        return item
    from ..source import parse

    try:
        return parse(item).model_dump()
    except (ValueError, HopscopeError) as error:
        raise ConfigError(f"{origin}: listen: {error}") from error


def _unknown(key: str, origin: str) -> str:
    hint = (
        _OTHER_FILES.get(key)
        or elsewhere(key, Settings, origin)
        or did_you_mean(key, (name for name, _ in walk(Settings)), origin)
        or "; `hopscope config show` lists them"
    )
    return f"{origin}: {key}: no such setting{hint}"


def walk(model: type[BaseModel], above: str = "") -> Iterator[tuple[str, str]]:
    """Every setting of a model, then its sections (as TOML needs it), dotted, with its description."""
    from .descriptions import descriptions

    about = descriptions(model)
    sections: list[tuple[str, str, type[Section]]] = []
    last: list[tuple[str, str]] = []
    for name, field in model.model_fields.items():
        if kind := section_of(field.annotation):
            sections.append((f"{above}{name}", about[name], kind))
        elif f"{above}{name}" in OPEN:
            last.append((name, about[name]))
        else:
            yield f"{above}{name}", about[name]
    for name, description, section in sections:
        yield name, description
        yield from walk(section, f"{name}.")
    yield from last
