"""`hopscope report-issue`."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from ..base.errors import HopscopeError
from .config import shown_settings
from .options.declare import option
from .options.settings import CollectorOptions


def report_issue(
    settings: CollectorOptions,
    output: Path | None = option(
        "--output -o FILE", "File to write; - for stdout.", show_default="hopscope-report-TIME.tar.gz"
    ),
    log: Path | None = option(
        "--log FILE", "Log of the collector, if neither the system's journal nor a file has it."
    ),
    events: int = option("--events N", "Also include the newest N events.", 0, min=0, max=100_000),
    seconds: float = option("--seconds S", "Time over which rates are measured.", 2.0, min=0.1, max=600),
) -> None:
    """Write all information for a bug report into one file, without secrets.

    The file has versions, settings, the machine, the running collector with its counters, and the end of its
    log; events only with --events. Passwords and tokens are left out. Look through it before you publish it:
    it has addresses and names.
    """
    from ..runtime.checks.diagnosis import archive, collect
    from ..settings.collector import Settings
    from ..settings.configuration.errors import ConfigError
    from ..settings.configuration.file import read_tables
    from ..settings.configuration.secrets import secrets_of

    try:
        loaded = settings.loaded()
    except ConfigError as error:  # which may be the problem
        known = Settings() if settings.data is None else Settings(data=settings.data)
        shown = "".join(f"# {line}\n" for line in str(error).splitlines())
        hidden = secrets_of(read_tables(settings.config))
    else:
        known, shown, hidden = loaded.settings, shown_settings(loaded), secrets_of(loaded.settings)
    name = time.strftime("hopscope-report-%Y%m%d-%H%M%S", time.gmtime())
    bundle = archive(collect(known, shown, hidden, log, events, seconds), name)
    if output is not None and str(output) == "-":
        sys.stdout.buffer.write(bundle)
        return
    path = output or Path(f"{name}.tar.gz")
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        raise HopscopeError(f"{path} exists; choose another with --output") from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(bundle)
    print(f"wrote {path}: look through it before you publish it (tar xzf {path})", file=sys.stderr)
