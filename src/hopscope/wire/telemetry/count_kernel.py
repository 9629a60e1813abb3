"""Number of reports in a datagram, before it is decoded."""

from ...base.kernels.jit import U64, kernel
from .. import layout
from ..headers.packet_kernel import get, word

VERSION = word(layout.GROUP_2_0, "version")
LENGTH = word(layout.REPORT_2_0, "report_length")
REPORT_TYPE, INNER_TYPE = word(layout.REPORT_2_0, "report_type"), word(layout.REPORT_2_0, "inner_type")
GROUP_BYTES, HEADER_BYTES = U64(8), U64(4)
TO_THE_END = U64(0xFF)


@kernel
def count_reports(buf, at, length):
    """Reports of the datagram at `at`, at least 1; only Report 2.0 groups them (section 3.3)."""
    end = at + length
    if length < GROUP_BYTES + HEADER_BYTES or get(buf, at, VERSION) != U64(2):
        return U64(1)
    at += GROUP_BYTES
    count = U64(0)
    while at + HEADER_BYTES <= end:
        count += U64(1)
        words = get(buf, at, LENGTH)
        # no length means up to the end of the datagram, unless the report is empty
        if words == TO_THE_END or (
            words == U64(0) and (get(buf, at, REPORT_TYPE) != U64(0) or get(buf, at, INNER_TYPE) != U64(0))
        ):
            break
        at += HEADER_BYTES + (words << U64(2))
    return count
