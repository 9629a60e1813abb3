"""`hopscope warmup`."""

from __future__ import annotations

from ..base.errors import HopscopeError
from .options.declare import argument
from .options.values import WORDS


def warmup(
    parts: list[str] | None = argument(
        "PART",
        "collector, sink, files (replay, decode), encoder, fabric, interfaces, mixed, labels, direct; all "
        "if omitted.",
        None,
        autocompletion=WORDS["PART"],
    ),
) -> None:
    """Compile kernels before their first use.

    They are kept in the user's cache folder (or in HOPSCOPE_KERNEL_CACHE) until Hopscope, Python or Numba
    changes. A collector needs `hopscope warmup collector`.
    """
    import time

    from ..base.kernels.kernel_cache import cache_folder
    from ..runtime.warmup import PARTS, compile_parts, is_compiled, steps_of

    if unknown := [part for part in parts or () if part not in PARTS]:
        raise HopscopeError(f"PARTS: found {unknown[0]!r}, expected {', '.join(PARTS)}")
    begin = time.monotonic()
    compile_parts(*parts or PARTS)
    compiled = [step for step in steps_of(parts or PARTS) if is_compiled(step)]
    print(f"compiled: {', '.join(compiled)}; {time.monotonic() - begin:.1f} s; in {cache_folder()}")
