"""INT alone, from its shim on, by kernel and by scalar codec: what the tests of its forms share."""

from __future__ import annotations

from typing import Any

import numpy as np

from hopscope.base.kernels.jit import readonly
from hopscope.wire.buffer import Buffer
from hopscope.wire.dialect import Dialect
from hopscope.wire.errors import WireError
from hopscope.wire.reasons import Place
from hopscope.wire.records import HOP, REPORT, Carrier
from hopscope.wire.telemetry import int_header
from hopscope.wire.telemetry.metadata_kernel import PLANS
from oracle.int_header import pull_header, pull_stack, row_fields

Result = tuple[int, int, int, dict[str, int], bytes]
"""(reason << 8 | place, offset, hops, columns of the row, HOP records)."""
FIELDS = tuple(row_fields(int_header.Shim(False), int_header.Md(20), 0))
NOTHING = dict.fromkeys(FIELDS, 0)


def scalar(raw: bytes, end: int, limit: int, carrier: int, dialect: Dialect, report: int) -> Result:
    """Read by the scalar codec: `raw[:end]` is captured, `limit` is where the packet ends by its length."""
    buf = Buffer(raw, 0, end)
    buf.limit = min(end, limit)
    fields = dict(NOTHING)
    try:
        shim, md, at = pull_header(buf, carrier, dialect, report, fields)
        fields |= row_fields(shim, md, at)
        hops, _ = pull_stack(buf, shim, md, dialect)
        if carrier <= Carrier.UDP and shim.npt == 2 and shim.original in (6, 17):
            buf.need(4, Place.INNER_L4, "ports")
    except WireError as error:
        return error.reason << 8 | error.place, error.at, 0, fields, b""
    records = np.zeros(len(hops), HOP)
    for record, hop in zip(records, hops, strict=True):
        for name in HOP.names or ():
            record[name] = getattr(hop, name)
    return 0, buf.at, len(hops), fields, records.tobytes()


class Compiled:
    """The kernel with blocks that keep what earlier examples left in them."""

    def __init__(self) -> None:
        from hopscope.wire.telemetry.int_kernel import ROLE_INSERTED, read_int, udp_carrier

        self.read_int: Any = read_int
        self.udp_carrier: Any = udp_carrier
        self.inserted = ROLE_INSERTED
        self.hops = np.frombuffer(bytes([0xA5]) * HOP.itemsize * 66, HOP).copy()

    def read(self, raw: bytes, end: int, limit: int, carrier: int, dialect: Dialect, report: int) -> Result:
        """The same as `scalar`; the frame lies between other bytes."""
        origin = 32
        arena = readonly(np.frombuffer(bytes(origin) + raw[:end] + b"\xee" * 300, np.uint8))
        row = np.zeros(1, REPORT)
        row["version"] = report
        table = dialect.table()
        begin, last, until = (np.uint64(n) for n in (origin, origin + end, origin + min(end, limit)))
        over = np.uint64(carrier)
        if carrier == Carrier.UDP_INSERTED:  # who calls the kernel asks first whether its header was inserted
            over = np.uint64(self.udp_carrier(arena, begin, until, self.inserted, table))
        why, at, count = self.read_int(
            arena,
            begin,
            begin,
            last,
            until,
            np.uint64(17),
            over,
            row[0],
            table,
            np.zeros(PLANS, np.uint64),
            self.hops,
            np.uint64(0),
        )
        fields = {name: int(row[0][name]) for name in FIELDS}
        hops = self.hops[: int(count)].tobytes()
        return int(why), int(at) - origin, int(count), fields, hops
