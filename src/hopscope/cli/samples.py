"""`hopscope samples`: captures to try things on."""

from __future__ import annotations

import shutil
from pathlib import Path

from ..base.errors import HopscopeError
from .options.declare import argument


def samples(
    folder: Path | None = argument(
        "FOLDER", "Copy them here; default: only list them.", None, show_default=False
    ),
) -> None:
    """List the bundled sample captures, or copy them into a folder.

    A file that exists already is replaced.
    """
    from ..library.samples import SAMPLES, sample

    if folder is not None:
        if folder.exists() and not folder.is_dir():
            raise HopscopeError(f"{folder} is not a folder")
        folder.mkdir(parents=True, exist_ok=True)
    width = max(map(len, SAMPLES))
    for name, what in SAMPLES.items():
        path = sample(name)
        if folder is not None:
            path = Path(shutil.copyfile(path, folder / name))
        print(f"{name:<{width}}  {path.stat().st_size:>7,} bytes  {what}")
