"""`hopscope open`: the console of the running collector, as an operator."""

from __future__ import annotations

import html
import os
import sys
from pathlib import Path

from .options.declare import option
from .options.settings import CollectorOptions

_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")
_FILE = "open.html"


def open(
    settings: CollectorOptions,
    only_print: bool = option("--print", "Only print the address.", False),
    viewer: bool = option("--viewer", "Without the code that logs an operator in.", False),
) -> None:
    """Open the console of the running collector in a browser, and print its address.

    The address has a code that logs the browser in as an operator, once, within 5 minutes: whoever may write
    to the data folder may make changes. Without a display, the address is only printed. Exit status 2: no
    collector runs, or it serves no console.
    """
    from ..base.errors import HopscopeError
    from ..base.process.control_client import request
    from ..memory.data_folder import read_owner

    loaded = settings.load()
    folder = loaded.data
    request(folder, {"status": {}})
    page = loaded.serve.public_url or read_owner(folder).get("api")
    if not page:
        raise HopscopeError(f"the collector of {folder} has no page: it runs with --no-serve")
    page = f"{page.rstrip('/')}/"
    if not viewer:
        page += f"login?code={_code(folder)}"
    print(page, flush=True)
    if only_print or not any(map(os.environ.get, _DISPLAYS)):
        return
    import webbrowser

    if not webbrowser.open(page if viewer else _leading_to(page, folder)):
        print("hopscope: no browser was found", file=sys.stderr)


def _code(folder: Path) -> str:
    """A code that logs in once. Raises OperatorsError."""
    from ..operators.codes import Codes
    from ..operators.database import Database
    from .output.local_user import local_user

    return Codes(Database(folder)).make(local_user())


def _leading_to(page: str, folder: Path) -> str:
    """Address of a private file that leads there: others can see the arguments of a browser's process."""
    file = folder / _FILE
    file.unlink(missing_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as text:
        text.write(f'<!doctype html><meta http-equiv="refresh" content="0;url={html.escape(page)}">\n')
    return file.absolute().as_uri()
