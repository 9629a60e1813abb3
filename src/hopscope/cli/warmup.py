"""`hopscope warmup`."""

from __future__ import annotations


def warmup() -> None:
    """Compile all kernels ahead of the first use.

    They are kept in the user's cache folder (HOPSCOPE_KERNEL_CACHE names another) until Hopscope, Numba or
    the processor changes.
    """
    import time

    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from ..runtime.warmup import steps

    begin = time.monotonic()
    todo = list(steps())
    columns = (SpinnerColumn(), TextColumn("{task.description:<24}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=len(todo))
        for name, step in todo:
            progress.update(task, description=name)
            step()
            progress.advance(task)

    from ..base.jit import cache_folder, compiled

    print(f"{len(compiled)} kernels compiled in {time.monotonic() - begin:.1f} s: {cache_folder()}")
