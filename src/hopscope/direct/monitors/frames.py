"""Captured packets as observations: the capture point acts as a switch."""

from __future__ import annotations

import numpy as np

from ...wire.observation import OBSERVATION
from ...wire.records import FrameBatch, Records


def observe_frames(batch: FrameBatch, switch: int = 1) -> Records:
    """OBSERVATION of the IP packets among frames.

    The capture point is the first and the last switch of their path; its ports, queues and drops are unknown.
    `packet` is `wire.packet_id`: 32 bits, the same wherever the packet is captured.
    """
    from ...base.kernels.jit import readonly
    from .frames_kernel import observe

    out = np.zeros(len(batch), OBSERVATION)
    return out[: observe(readonly(batch.arena), readonly(batch.frames), np.uint32(switch), out)]
