"""`hopscope version`."""

from __future__ import annotations

from typing import Annotated

import typer


def version(
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Also the versions of what it stands on.")
    ] = False,
) -> None:
    """Print the version."""
    from ..base.version import VERSION

    print(f"hopscope {VERSION}")
    if verbose:
        import platform
        from importlib.metadata import version as installed

        print(f"python {platform.python_version()} on {platform.platform()}")
        for package in ("numpy", "numba", "duckdb", "fastapi", "nicegui", "pydantic", "typer"):
            print(f"{package} {installed(package)}")
