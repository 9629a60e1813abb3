"""Paths and latencies from the postcards of INT-XD and INT-MX: each switch reports its own."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from ....wire.observation import FLOW_BYTES
from ....wire.records import Records
from ...primitives.postcarding import Paths
from ...stores.store import Store
from ..bases import Postcarding
from ..monitor import Bytes, Reports, sampled


class Postcards(Postcarding):
    """Every switch reports, for a flow's packets, its id or their hop latency. All switches choose the same
    packets, one in `rate` by a hash. Postcarding needs values of a known set, so a latency is reported in
    steps of `step_ns`, at most `steps - 1`.

    A chunk belongs to a flow, not to a packet. If two chosen packets of a flow are in flight at once, their
    postcards mix: latencies may be of both, and the remaining postcards of one become a chunk with holes,
    which replaces a complete one. Such a path has no answer, never a wrong one.
    """

    name = "int-postcards"
    description = "switch id, or latency, of each hop of a flow"
    sizes = "13 B key and hop, 4 B data"
    source = "INT-XD, INT-MX; DTA Table 2, Postcarding"
    key_bytes = FLOW_BYTES

    def __init__(
        self,
        value: Literal["switch", "hop_latency"] = "switch",
        rate: int = 1,
        step_ns: int = 1000,
        steps: int = 4096,
    ) -> None:
        self.value, self.rate, self.step_ns, self.steps = value, rate, step_ns, steps

    def observe(self, observations: Records) -> Reports:
        """A postcard from every switch on a chosen packet's path."""
        chosen = sampled(observations["packet"], self.rate)
        passed = observations[chosen & (observations["drop_reason"] == 0)]
        values = passed[self.value]
        if self.value == "hop_latency":
            values = np.minimum(values // self.step_ns, self.steps - 1)
        return self.postcards(passed["flow"], values, passed)

    def query(self, store: Store, flows: Bytes, switches: npt.ArrayLike = ()) -> Paths:
        """Paths of flows (uint8 [flows, 13]) over `switches`; of latencies: in steps."""
        values = np.arange(self.steps) if self.value == "hop_latency" else switches
        return super().query(store, flows, values)
