"""`hopscope version`."""

from __future__ import annotations

from typing import Annotated

import typer


def version(
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Also print the versions of Python and the dependencies.")
    ] = False,
) -> None:
    """Print the version."""
    from ..base.version import VERSION

    print(f"hopscope {VERSION}")
    if verbose:
        import platform
        from importlib.metadata import version as installed

        print(f"python {platform.python_version()} on {platform.platform()}")
        for package in ("numpy", "numba", "duckdb", "fastapi", "websockets", "pydantic", "typer"):
            print(f"{package} {installed(package)}")
