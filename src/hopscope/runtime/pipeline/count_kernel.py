"""Counts the contents of a decoded batch in one pass."""

from ...base.kernels.jit import U64, kernel
from ...detect.tally_kernel import settle
from ...wire.reasons import Place, Reason
from ...wire.records import Carried, Mode

FRAMES, BYTES, REPORTS, PACKETS, HOPS = U64(0), U64(1), U64(2), U64(3), U64(4)
"""Slots of `tally`; PACKETS: those that carry telemetry themselves."""
REASONS = 5
"""First of the slots for rejected reports by Reason, whose 0 is not used; those by Place follow."""
PLACES = REASONS + len(Reason)
TALLY = PLACES + len(Place)
_REASONS, _PLACES = U64(REASONS), U64(PLACES)
_OWN_HOP, _MX = U64(Carried.OWN_HOP), U64(Mode.MX)


@kernel
def count_batch(frames, reports, tally, slots, places, counters):
    """Count FRAME and REPORT rows in `counters`; returns (accepted reports, postcards).

    `tally` is uint64 [TALLY], all 0 before and after; `slots` and `places` as for `settle`. A postcard has
    report metadata or a record of INT-MX, no stack, and an identifiable packet.
    """
    octets, hops, accepted, packets, postcards = U64(0), U64(0), U64(0), U64(0), U64(0)
    for i in range(len(frames)):
        octets += U64(frames[i].length)
    for i in range(len(reports)):
        report = reports[i]
        count = U64(report.hop_count)
        hops += count
        if report.reason == 0:
            accepted += U64(1)
            packets += U64(report.version == 0)
        else:
            tally[_REASONS + U64(report.reason)] += U64(1)
            tally[_PLACES + U64(report.place)] += U64(1)
        if count <= U64(1) and report.packet_id != 0:
            own = count == U64(0) and U64(report.carried) & _OWN_HOP != U64(0)
            postcards += U64(own or (count == U64(1) and U64(report.int_mode) == _MX))
    tally[FRAMES], tally[BYTES], tally[HOPS] = U64(len(frames)), octets, hops
    tally[REPORTS], tally[PACKETS] = accepted, packets
    settle(tally, slots, places, counters)
    return accepted, postcards
