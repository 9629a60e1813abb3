"""`hopscope open`: the console of the running collector."""

from __future__ import annotations

import os
import sys
from typing import Annotated

from .options.declare import option
from .options.settings import CollectorOptions

_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


def open(
    settings: CollectorOptions,
    only_print: Annotated[bool, option("--print", help="Print the address alone.")] = False,
) -> None:
    """Open the console of the running collector in a browser, and print its address.

    Without a display the address is only printed. Exit status 2: no collector runs, or it has no page.
    """
    from ..base import control_client as control
    from ..base.errors import HopscopeError
    from ..memory.data_folder import read_owner

    folder = settings.load().data
    try:
        control.request(folder, {"status": {}})
    except control.ControlError as error:
        raise HopscopeError(str(error)) from None
    page = read_owner(folder).get("api")
    if not page:
        raise HopscopeError(f"the collector of {folder} has no page: it runs with --no-serve")
    print(page, flush=True)
    if only_print or not any(map(os.environ.get, _DISPLAYS)):
        return
    import webbrowser

    if not webbrowser.open(page):
        print("hopscope: no browser was found", file=sys.stderr)
