"""Loss events, as in NetSeer: flow, location and reason of lost packets, in one list for the network."""

from __future__ import annotations

import numpy as np

from ....wire.observation import FLOW_BYTES
from ....wire.records import Records
from ...stores.store import Store
from ..bases import Events
from ..groups import Groups, Numbering
from ..monitor import Reports, appended, packed

LOSS = np.dtype(
    [
        ("flow", "u1", (FLOW_BYTES,)),
        ("switch", "<u2"),
        ("egress_port", "u1"),
        ("reason", "u1"),
        ("packets", "u1"),
    ]
)
"""A loss event; NetSeer's format has an ingress port and a longer counter instead of the switch."""
MAX_PACKETS = 255
"""Maximum packets of one event."""


class NetSeer(Events):
    """Merges the losses of a batch with the same flow, switch, port and reason into one event."""

    name = "netseer-losses"
    description = "flow, switch, port, reason and number of lost packets"
    sizes = "18 B"
    source = "NetSeer; DTA Table 2, Append"
    first_list = 1
    record = LOSS

    def observe(self, observations: Records) -> Reports:
        """Events of dropped packets."""
        lost = observations[observations["drop_reason"] > 0]
        keys = packed(lost["flow"], (lost["switch"], 2), (lost["egress_port"], 1), (lost["drop_reason"], 1))
        groups = Groups(Numbering(keys.shape[1]).of(keys))
        place = groups.sums(np.ones(len(lost)))
        ends = place % MAX_PACKETS == 0
        ends[groups.last] = True
        packets = (place[ends] - 1) % MAX_PACKETS + 1
        return appended(0, packed(keys[ends], (packets, 1)))

    def query(self, store: Store) -> Records:
        """LOSS records in the list, in order of time."""
        return self.read(store, 0)
