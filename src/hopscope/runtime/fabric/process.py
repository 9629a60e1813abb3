"""The two processes of a fabric, in the background: `python -m hopscope.runtime.fabric.process ROLE NAME`.

`switches` moves frames; `collector` is a supervised collector that takes the labels. Both write a log into
the fabric's folder (`ROLE.log`), and create a file there (`ROLE.ready`) once they work. SIGTERM ends them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from ...base import log
from ...base.errors import HopscopeError
from ...settings.collector import Settings
from ...testbed.fabric import TestbedError
from ...testbed.state import SETTINGS_FILE, FabricState, read

_LAST = {"switches": "switching", "collector": "collecting"}
"""Text in the last line of a log as long as nothing has gone wrong."""
START_SECONDS = 600.0
"""How long a start may take; the first one compiles kernels."""


def start(state: FabricState, role: str) -> subprocess.Popen[bytes]:
    """Start a process that outlives this program."""
    _ready(state, role).unlink(missing_ok=True)
    with _log(state, role).open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "hopscope.runtime.fabric.process", role, state.name],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
            env=os.environ | dict([state.mark.split("=", 1)]),
        )  # fmt: skip
    state.started(role, process.pid)
    return process


def await_ready(
    state: FabricState, role: str, process: subprocess.Popen[bytes], turn: Callable[[], object]
) -> None:
    """Wait until a process works, calling `turn` now and then. Raises TestbedError with its last words."""
    until = time.monotonic() + START_SECONDS
    while not _ready(state, role).exists():
        if process.poll() is not None:
            raise TestbedError(f"the {role} of the fabric ended: {last_words(state, role)}")
        if time.monotonic() > until:
            raise TestbedError(f"the {role} did not start in {START_SECONDS:g} s: {last_words(state, role)}")
        turn()
        time.sleep(0.05)


def last_words(state: FabricState, role: str) -> str:
    """Why a process ended, from the last line of its log."""
    text = ""
    with suppress(OSError):
        text = _log(state, role).read_text(encoding="utf-8", errors="replace")
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return "it logged nothing"
    if _LAST[role] in lines[-1]:
        return "killed, or ended without an error"
    with suppress(ValueError, TypeError, KeyError):
        return str(json.loads(lines[-1])["event"])
    return lines[-1].removeprefix("hopscope: ")


def _log(state: FabricState, role: str) -> Path:
    return state.folder / f"{role}.log"


def _ready(state: FabricState, role: str) -> Path:
    return state.folder / f"{role}.ready"


def _settings(state: FabricState) -> Settings:
    return Settings.model_validate_json((state.folder / SETTINGS_FILE).read_bytes())


def main() -> None:
    """Entry point of a process."""
    role, name = sys.argv[1:]
    state = read(name)
    try:
        if state is None:
            raise TestbedError(f"unknown fabric {name!r}")
        load = partial(_settings, state)
        settings = load()
        log.configure(level=settings.log.level, form=settings.log.format)
        ready = _ready(state, role).touch
        if role == "switches":
            from ...testbed.switch import run

            run(state, settings.label, ready=ready)
        else:
            from ..supervisor.run import run as collect

            sys.exit(collect(settings, load, ready=ready))
    except HopscopeError as error:
        sys.exit(f"hopscope: {error}")
    except OSError as error:
        sys.exit(f"hopscope: {error.filename or role}: {error.strerror or error}")


if __name__ == "__main__":
    main()
