"""Gathers the files of a problem report, without secrets, for `hopscope report-issue`."""

from __future__ import annotations

import io
import json
import os
import platform
import re
import subprocess
import tarfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, distribution
from itertools import islice
from pathlib import Path
from typing import Any

from ...base.errors import HopscopeError, described
from ...base.names import Names
from ...base.process import control_client as control
from ...base.version import VERSION
from ...control.counters import CONTROL_COUNTERS
from ...detect.counters import COUNTERS
from ...direct.counters import TRANSLATOR_COUNTERS
from ...export.counters import DESTINATION, read_counters
from ...history.query import History
from ...labels.counters import LABEL_COUNTERS
from ...memory.data_folder import read_owner
from ...memory.private_file import HASH_SECRET
from ...naming.counters import NAMES_COUNTERS
from ...present.collector_state import CollectorState
from ...present.events import event_object
from ...serve.access.tokens import NAME as TOKEN
from ...settings.collector import Settings
from ...settings.configuration.secrets import SET, Scrubber
from ...settings.section import is_secret
from .doctor import examine
from .environment import findings

LOG_BYTES = 256 * 1024
"""How much of the end of the log is included."""
LOG_LINES = 1000
VARIABLES = re.compile(r"HOPSCOPE_|NUMBA_|OMP_|PYTHON|XDG_|LANG$|LC_|TZ$|TERM$|NO_COLOR$")
"""Environment variables whose values are included; of all others, only the names are."""
ABOUT = """\
A report of a problem with Hopscope, made by `hopscope report-issue`.

versions.json     Hopscope, Python, the system, packages
settings.toml     settings in force, without passwords and tokens
environment.json  variables: values of Hopscope's own, names of the others
machine.json      what `hopscope check` finds
collector.json    what `hopscope doctor` finds, processes, addresses
counters.json     counters, by process, and by destination
log.txt           the end of the collector's log
events.jsonl      events, only with --events

Passwords, tokens, and the parts of URLs that hold them are left out. Host names, addresses of listeners and
destinations, and names of interfaces are in it: look through it before you publish it.
"""


def collect(
    settings: Settings, shown: str, hidden: frozenset[str], log: Path | None, events: int, seconds: float
) -> dict[str, str]:
    """The contents of a report's files by file name. `shown`: the settings as text; `hidden`: known secrets;
    `log`: the log file, if it cannot be found automatically; `events`: how many of the newest events to
    include; `seconds`: the interval over which rates are measured.
    """
    folder = settings.data
    scrub = Scrubber(hidden | _of_folder(folder))
    owner = read_owner(folder)
    texts = {
        "about.txt": ABOUT,
        "versions.json": _json(_versions()),
        "settings.toml": shown + "\n",
        "environment.json": _json(_environment(os.environ)),
        "machine.json": _json(_found(findings(settings))),
        "collector.json": _json(
            {"found": _found(examine(settings, seconds)), "owner": owner, "status": _status(folder)}
        ),
        "counters.json": _json(_counters(folder, settings)),
        "log.txt": _log(log, owner),
    }
    if events:
        texts["events.jsonl"] = "".join(_events(folder, settings, events))
    return {name: scrub(text) for name, text in texts.items()}


def archive(texts: Mapping[str, str], name: str) -> bytes:
    """A tar file, gzipped, with the texts in a folder `name`."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as bundle:
        for path, text in texts.items():
            content = text.encode("utf-8", "replace")
            member = tarfile.TarInfo(f"{name}/{path}")
            member.size, member.mode, member.mtime = len(content), 0o600, int(time.time())
            bundle.addfile(member, io.BytesIO(content))
    return target.getvalue()


def _of_folder(folder: Path) -> frozenset[str]:
    """Secrets that a data folder keeps in files."""
    found = set()
    for name in (TOKEN, HASH_SECRET):
        with suppress(OSError, ValueError):
            found.add((folder / name).read_text(encoding="utf-8").strip())
    return frozenset(found - {""})


def _json(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n"


def _versions() -> dict[str, object]:
    packages = {}
    with suppress(PackageNotFoundError):
        for line in distribution("hopscope").requires or ():
            name = re.split(r"[^\w.-]", line, maxsplit=1)[0]
            with suppress(PackageNotFoundError):
                packages[name] = distribution(name).version
    return {
        "hopscope": VERSION,
        "python": platform.python_version(),
        "system": platform.platform(),
        "machine": platform.machine(),
        "libc": " ".join(platform.libc_ver()),
        "distribution": _distribution(),
        "packages": dict(sorted(packages.items())),
    }


def _distribution() -> str:
    with suppress(OSError):
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    return ""


def _environment(variables: Mapping[str, str]) -> dict[str, object]:
    shown = {name: value for name, value in sorted(variables.items()) if VARIABLES.match(name)}
    return {
        "values": {
            name: SET if is_secret(name.lower()) or "://" in value else value for name, value in shown.items()
        },
        "other_names": sorted(set(variables) - set(shown)),
    }


def _found(found: Iterable[Any]) -> list[object]:
    """Findings as JSON objects; if the examination fails, the last one is the error."""
    rows: list[object] = []
    try:
        rows.extend(map(asdict, found))
    except (HopscopeError, OSError, ValueError) as error:
        rows.append({"error": described(error)})
    return rows


def _status(folder: Path) -> object:
    try:
        return control.request(folder, {"status": {}})
    except control.ControlError as error:
        return {"error": str(error)}


def _counters(folder: Path, settings: Settings) -> dict[str, object]:
    state = CollectorState(folder, fresh_seconds=0)
    processes = {
        name: {counter.key: int(value) for counter, value in zip(COUNTERS, values, strict=True) if value}
        for name, values in state.counters().processes.items()
    }
    destinations = [
        {name: _plain(row[name]) for name in DESTINATION.names or ()} for row in read_counters(folder)
    ]
    others = {
        "labels": LABEL_COUNTERS.read(state.regions),
        "control": CONTROL_COUNTERS.read(state.regions),
        "names": NAMES_COUNTERS.read(state.regions),
        "translator": TRANSLATOR_COUNTERS.read(settings.stores_folder),
    }
    counted = {name: {key: value for key, value in all_.items() if value} for name, all_ in others.items()}
    return {"processes": processes, **counted, "destinations": destinations}


def _plain(value: Any) -> object:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else int(value)


def _log(named: Path | None, owner: Mapping[str, Any]) -> str:
    """The end of the log: the named file, the file of the collector's stderr, or its unit's journal."""
    if named is not None:
        return _end(named)
    pid = owner.get("pid")
    process = Path(f"/proc/{pid}")
    if not pid or not process.exists():
        return "no collector runs; --log FILE takes a log\n"
    try:
        target = process / "fd" / "2"
        if target.resolve().is_file():
            return _end(target)
        unit = re.search(r"/([^/\n]+\.service)$", (process / "cgroup").read_text(), re.MULTILINE)
    except OSError as error:
        return f"the log cannot be read: {error.strerror}; --log FILE takes one\n"
    if unit is None:
        return "the log of the collector goes to no file and to no journal; --log FILE takes one\n"
    command = ["journalctl", "--no-pager", "--output=short-iso", f"--lines={LOG_LINES}", f"--unit={unit[1]}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"journalctl: {error}\n"
    return done.stdout or f"journalctl: {done.stderr.strip()}\n"


def _end(path: Path) -> str:
    """The last lines of a file."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - LOG_BYTES))
        lines = file.read().decode("utf-8", "replace").splitlines(keepends=True)
    return "".join(lines[1 if size > LOG_BYTES else 0 :][-LOG_LINES:])


def _events(folder: Path, settings: Settings, count: int) -> Iterator[str]:
    try:
        names = Names.load(settings.names, folder)
        with History(folder) as history:
            rows = history.events(limit=count, order="newest").rows()
            for row in islice(rows, count):
                yield json.dumps(event_object(row, names), ensure_ascii=False, default=str) + "\n"
    except HopscopeError as error:
        yield json.dumps({"error": str(error)}) + "\n"
