"""What is in a store, page by page, without sorting all of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pytest

from hopscope.direct.primitives.key_increment import KeyIncrementLayout
from hopscope.direct.stores import browse


@pytest.mark.parametrize("order", ["highest", "index"])
@pytest.mark.parametrize(("offset", "limit"), [(0, 10), (7, 5), (395, 50), (1000, 10)])
def test_a_page_is_that_of_all_counters(
    monkeypatch: pytest.MonkeyPatch, order: Literal["highest", "index"], offset: int, limit: int
) -> None:
    """Against a sort of everything, with equal values, over several parts: 400 of 1,000 counters count."""
    monkeypatch.setattr(browse, "_AT_A_TIME", 64)
    random = np.random.default_rng(5)
    values = np.zeros(1000, np.uint64)
    values[random.choice(1000, 400, replace=False)] = random.integers(1, 50, 400)
    store: Any = SimpleNamespace(layout=KeyIncrementLayout(slots=1000), memory=values.view(np.uint8))
    total, numbers, found = browse.counters_of(store, order, offset, limit)
    pairs = [(int(value), number) for number, value in enumerate(values) if value]
    pairs.sort(key=(lambda pair: pair[1]) if order == "index" else (lambda pair: (-pair[0], -pair[1])))
    assert total == 400
    assert list(zip(found.tolist(), numbers.tolist(), strict=True)) == pairs[offset : offset + limit]
