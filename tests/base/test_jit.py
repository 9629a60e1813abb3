"""The kernel decorators."""

from __future__ import annotations

from typing import Any

import pytest

from hopscope.base.jit import U64, inlined, kernel

pytestmark = pytest.mark.kernel


@kernel
def below(x: Any) -> Any:
    return x + U64(1)


@inlined
def between(x: Any) -> Any:
    return below(x) << U64(1)


@kernel
def above(x: Any) -> Any:
    return between(x) + U64(3)


def test_inlining_is_not_handed_down() -> None:
    """What an inlined kernel calls is inlined only where it says so itself: else everything below one is
    copied into each of its callers, and compiles many times as long.
    """
    assert above(U64(5)) == 15  # compiles the others, unless it is in the cache
    forced = {}
    dispatchers: list[Any] = [below, between, above]
    for dispatcher in dispatchers:
        dispatcher(U64(5))
        (compiled,) = dispatcher.overloads.values()
        forced[dispatcher.__name__] = compiled.fndesc.inline
    assert forced == {"below": False, "between": True, "above": False}
