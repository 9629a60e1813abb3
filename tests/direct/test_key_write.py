"""Key-Write: what was reported is found, and as often as the theory says."""

from __future__ import annotations

import numpy as np
import pytest
from direct_make import as_bytes, dta

from hopscope.direct.key_write import KeyWriteLayout, query
from hopscope.direct.store import Store
from hopscope.direct.translator import Translator
from hopscope.direct.transport import MemoryTransport
from hopscope.wire.reasons import DtaReason

pytestmark = pytest.mark.kernel


def test_a_report_is_found() -> None:
    """What a translator wrote answers a query by its key."""
    store = Store.create(None, KeyWriteLayout(slots=1 << 12, data_bytes=4))
    translator = Translator([store.layout], MemoryTransport([store]))
    keys, values = as_bytes(np.arange(100, dtype=np.uint64), 13), as_bytes(np.arange(100, dtype=np.uint64))
    translator.translate(*dta(1, keys, values, redundancy=2))
    answers = query(store, keys)
    assert answers.found.all()
    assert (answers.data == values).all()
    assert not query(store, keys + np.uint8(100)).found.any()


def test_redundancy_out_of_range_is_refused() -> None:
    """No copies, and more than the store allows, change nothing and are counted."""
    store = Store.create(None, KeyWriteLayout(slots=64, copies=2))
    translator = Translator([store.layout], MemoryTransport([store]))
    keys = as_bytes(np.arange(3, dtype=np.uint64))
    translator.translate(*dta(1, keys, keys, redundancy=np.array([0, 2, 3])))
    assert translator.refused[DtaReason.BAD_REDUNDANCY] == 2
    assert query(store, keys).found.tolist() == [False, True, False]
