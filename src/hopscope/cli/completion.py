"""Completion of a command line in bash, zsh and fish.

Shells ask at every Tab, so this reads `completion.json`, which `python docs/reference.py` writes, and imports
neither the commands nor Typer. The shells' own scripts are Typer's (`hopscope --install-completion`); they
pass the line in the environment.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

VARIABLE = "_HOPSCOPE_COMPLETE"
"""Environment variable with the instruction, such as `complete_bash`."""
TABLE = Path(__file__).with_name("completion.json")
"""`words` by placeholder, and `commands` by name (`""`, `query`, `query events`, …): `help`; `options`, each
[names, value, whether it is repeatable, help], without HELP; `arguments`, of each its value.

A value is a list of words, the placeholder of one, null (any), or false if the option takes none.
"""
HELP = [["--help"], False, False, "Show this message and exit."]
"""The option that all commands have."""
Candidate = tuple[str, str]
"""A possible next word, and its help."""


def answer(environment: Mapping[str, str]) -> bool:
    """Print completions of the line; False: Typer handles this shell or request."""
    shell = environment[VARIABLE].removeprefix("complete_")
    if shell not in ("bash", "zsh", "fish"):
        return False
    words, incomplete = _bash(environment) if shell == "bash" else _line(environment)
    found = candidates(load(), words, incomplete)
    if shell == "bash":
        sys.stdout.writelines(f"{word}\n" for word, _ in found)
    elif shell == "zsh":
        items = "\n".join(f'"{_zsh(word)}"' + (f':"{_zsh(help)}"' if help else "") for word, help in found)
        print(f"_arguments '*: :(({items}))'" if found else "_files")
    elif environment.get("_TYPER_COMPLETE_FISH_ACTION") == "is-args":
        sys.exit(0 if found else 1)
    else:
        sys.stdout.writelines(f"{word}\t{help}\n" if help else f"{word}\n" for word, help in found)
    return True


def load() -> dict[str, Any]:
    """The table of commands and options."""
    return json.loads(TABLE.read_text(encoding="utf-8"))


def candidates(table: Mapping[str, Any], words: list[str], incomplete: str) -> list[Candidate]:
    """Possible words after `words`, the arguments so far, that begin with `incomplete`."""
    commands = table["commands"]
    command, arguments, value, given = "", 0, None, set()
    rest = iter(words)
    for word in rest:
        option = _options(commands[command]).get(word.partition("=")[0])
        if option is not None:
            given.add(option[0][0])
            if option[1] is not False and "=" not in word and next(rest, None) is None:
                value = option
        elif f"{command} {word}".strip() in commands:
            command = f"{command} {word}".strip()
        elif not word.startswith("-"):
            arguments += 1
    entry = commands[command]
    name, equals, _ = incomplete.partition("=")
    if value is not None:
        found = _words(table, value[1])
    elif equals and name in _options(entry):
        found = [(f"{name}={word}", "") for word, _ in _words(table, _options(entry)[name][1])]
    elif incomplete.startswith("-"):
        found = [
            (names[0], help)
            for names, _, repeatable, help in [*entry["options"], HELP]
            if repeatable or names[0] not in given
        ]
    elif below := _below(commands, command):
        found = [] if arguments else below
    else:
        found = _words(table, (entry["arguments"] or [None])[min(arguments, len(entry["arguments"]) - 1)])
    return [(word, help) for word, help in found if word.startswith(incomplete)]


def _below(commands: Mapping[str, Any], command: str) -> list[Candidate]:
    """Commands of a group."""
    above = f"{command} ".lstrip()
    names = [path.removeprefix(above) for path in commands if path and path.startswith(above)]
    return [(name, commands[above + name]["help"]) for name in names if " " not in name]


def _words(table: Mapping[str, Any], value: Any) -> list[Candidate]:
    words = table["words"][value] if isinstance(value, str) else value or ()
    return [(word, "") for word in words]


def _options(entry: Mapping[str, Any]) -> dict[str, list[Any]]:
    return {name: option for option in [*entry["options"], HELP] for name in option[0]}


def _bash(environment: Mapping[str, str]) -> tuple[list[str], str]:
    """Words before the cursor, and the word at it; bash treats `=` as a separate word."""
    words, at = _split(environment["COMP_WORDS"]), int(environment["COMP_CWORD"])
    incomplete = words[at] if at < len(words) else ""
    before = [word for word in words[1:at] if word != "="]
    return before, "" if incomplete == "=" else incomplete


def _line(environment: Mapping[str, str]) -> tuple[list[str], str]:
    line = environment.get("_TYPER_COMPLETE_ARGS", "")
    words = _split(line)[1:]
    if words and not line.endswith(" "):
        return words[:-1], words[-1]
    return words, ""


def _split(line: str) -> list[str]:
    """Words of a line as a shell splits them; an unclosed quote ends with the line."""
    lexer = shlex.shlex(line, posix=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    words: list[str] = []
    try:
        words.extend(lexer)
    except ValueError:
        words.append(lexer.token)
    return words


def _zsh(text: str) -> str:
    for plain, quoted in (('"', '""'), ("'", "''"), ("$", "\\$"), ("`", "\\`"), (":", "\\\\:")):
        text = text.replace(plain, quoted)
    return text
