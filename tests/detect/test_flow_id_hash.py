"""The id of a flow from Python is that of the kernels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopscope.base.hash_keys import hash_keys
from hopscope.detect.flows.flow_id_hash import FlowIdHash
from hopscope.detect.records import KEYS

pytestmark = pytest.mark.kernel
word = st.integers(0, 2**64 - 1)
port = st.integers(0, 2**16 - 1)


@settings(deadline=None)  # the first call compiles
@given(st.binary(max_size=8), st.tuples(word, word, word, word), port, port, st.sampled_from([4, 6]))
def test_ids_are_those_of_the_kernels(
    secret: bytes, ends: tuple[int, int, int, int], sport: int, dport: int, ip_version: int
) -> None:
    """Of any flow and secret."""
    from hopscope.detect.flows.event_kernel import hash_flow, pack_l4

    l4 = np.uint64(pack_l4(np.uint64(sport), np.uint64(dport), np.uint64(17), np.uint64(ip_version)))
    a, b, c, d = (np.uint64(word) for word in ends)
    found = hash_flow(a, b, c, d, l4, hash_keys(secret, KEYS))
    assert FlowIdHash(secret).of(ends[:2], ends[2:], sport, dport, 17, ip_version) == int(found)
