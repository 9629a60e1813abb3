"""The console's modules: every name that one imports, exports or declares is used. No browser."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

CONSOLE = Path(str(files("hopscope").joinpath("serve/console")))
NOT_CODE = re.compile(r'/\*.*?\*/|(?<![:"])//[^\n]*', re.DOTALL)
IMPORT = re.compile(r'^import \{([^}]*)\} from "[^"]*";$', re.MULTILINE)
DECLARED = re.compile(r"\b(export )?(?:async )?(?:function|const|let|class) (\w+)")
ELSEWHERE = {"show", "title", "csv", "portOf", "nameFor"}
"""Exports that app.js takes from a view, and that tests call."""


def names_imported(code: str) -> list[tuple[str, str]]:
    """(Name there, name here) of each import."""
    found = [each.strip() for names in IMPORT.findall(code) for each in names.split(",") if each.strip()]
    return [(each.split(" as ")[0], each.split(" as ")[-1]) for each in found]


def uses(name: str, code: str) -> int:
    """How often a name stands in code; `a.name` and `"name"` are others, `${name}` and `...name` are not."""
    return len(re.findall(rf'(?<![\w$"])(?<!(?<!\.)\.){name}(?![\w$"])', code))


def unused(modules: dict[str, str]) -> list[str]:
    """What no module needs, one line each."""
    code = {path: NOT_CODE.sub("", text) for path, text in modules.items()}
    wanted = {name for text in code.values() for name, _ in names_imported(text)} | ELSEWHERE
    lines = []
    for path, text in code.items():
        body = IMPORT.sub("", text)
        lines += [f"{path} imports {name}" for _, name in names_imported(text) if not uses(name, body)]
        for exported, name in DECLARED.findall(body):
            if exported and name not in wanted:
                lines.append(f"{path} exports {name}")
            elif not exported and uses(name, body) < 2:
                lines.append(f"{path} declares {name}")
    return sorted(set(lines))


def test_nothing_in_the_modules_is_unused() -> None:
    """By names alone: an import that nothing uses, an export that nobody imports, a function
    that nothing calls.
    """
    modules = {str(path.relative_to(CONSOLE)): path.read_text() for path in CONSOLE.rglob("*.js")}
    assert len(modules) > 50
    assert not unused(modules)


def test_what_is_unused_is_found() -> None:
    """One of each kind beside names that are used in other ways than by a call."""
    modules = {
        "a.js": 'import { one, two as three } from "./b.js";\nconst spare = 1;\nconst used = [...one];\n'
        "use(used.spare);\n",
        "b.js": "export const one = [];  // one\nexport function two() {}\nexport const more = `${one}`;\n",
    }
    assert unused(modules) == ["a.js declares spare", "a.js imports three", "b.js exports more"]
