"""Headers of Direct Telemetry Access: the published base headers, headers after them, and Hopscope's own."""

from ..fields import header

DTA_2 = header("DTA", "DTA, 2 bytes", ("opcode", 8), ("immediate", 1), ("reserved", 7))
DTA_3 = header(
    "DTA with tracking", "DTA, 3 bytes",
    ("opcode", 8), ("sequence", 8), ("immediate", 1), ("retransmit", 1), ("reserved", 6),
)  # fmt: skip
DTA_KEY_WRITE = header("DTA Key-Write", "DTA 3.1", ("redundancy", 8), ("key", 32), ("data", 32))
DTA_APPEND = header("DTA Append", "DTA 3.3", ("list", 32), ("data", 32))
DTA_KEY_INCREMENT = header("DTA Key-Increment", "DTA 3.4", ("redundancy", 8), ("key", 32), ("counter", 64))
DTA_POSTCARD = header("DTA Postcarding", "DTA 3.2", ("key", 32), ("hop", 8), ("data", 32))
DTA_ACK = header("DTA acknowledgment", "DTA 4", ("sequence", 8), ("nack", 1), ("reserved", 7))
DTA_SIZED = header(
    "DTA with lengths", "Hopscope's own",
    ("opcode", 8), ("immediate", 1), ("retransmit", 1), ("reserved", 6),
    ("key_bytes", 8, "bytes"), ("data_bytes", 8, "bytes"), ("sequence", 32), ("redundancy", 8),
    ("hop", 8, "", "Postcarding; 1 is the first"), ("path_length", 8, "hops", "0: unknown"),
    ("reserved", 8),
)  # fmt: skip
"""Then the key (Append: the list, 4 bytes) and the data (Key-Increment: the counter, 8 bytes)."""
DTA_SIZED_ACK = header(
    "DTA acknowledgment with count", "Hopscope's own",
    ("sequence", 32, "", "ACK: the last report that need not be kept; NACK: the first rejected one"),
    ("count", 16, "reports", "NACK: rejected in a row, at least 1"), ("nack", 1), ("reserved", 7),
    ("reason", 8, "", "NACK: a DtaReason; 0: they are missing"),
)  # fmt: skip
DTA_PORT, DTA_ACK_PORT = 40040, 40044
