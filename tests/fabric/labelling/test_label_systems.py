"""Figures of INT-label next to other systems: what their simulations count."""

from __future__ import annotations

import pytest

from hopscope.settings.label import LabellingSettings
from support.network.limited_links import lost

pytestmark = pytest.mark.kernel


def test_labels_cost_their_bytes_where_links_are_limited() -> None:
    """Figure 14 could show loss by labels: at its limit traffic alone loses nothing, and with labels in every
    packet it is not so.
    """
    every = LabellingSettings(algorithm="base-a", interval=1e-6)
    assert lost(1_562_500, None, 1, seconds=20) == 0
    assert lost(1_562_500, every, 1, seconds=20) > 0.001
