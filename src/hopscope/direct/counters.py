"""Translator counters, in a region that `/metrics` reads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..base.counter import Counter
from ..memory.counted import CountedRegion, read_counted
from ..rdma.counters import COUNTERS as RDMA_COUNTERS
from ..rdma.records import Verb
from ..wire.dta.codec import Opcode
from ..wire.reasons import DtaReason

KIND = "translator"
VERSION = 1
FILE_NAME = "translator.counters"
EXTENSION = "extension"
"""Label of reports for extension primitives."""


def _family(name: str, text: str, label: str, values: tuple[str, ...]) -> tuple[Counter, ...]:
    return tuple(Counter(name, text, (label, value)) for value in values)


OPCODE_LABELS = {int(opcode): opcode.name.lower().replace("_", "-") for opcode in Opcode}
COUNTERS: tuple[Counter, ...] = (
    Counter("dta_datagrams_total", "Datagrams received by the translator."),
    Counter("dta_bytes_total", "Bytes of these datagrams."),
    Counter("dta_kernel_drops_total", "Datagrams dropped by the kernel: the socket buffer was full."),
    Counter("dta_denied_total", "Datagrams from sources that are not on the allow list."),
    Counter("dta_oversized_total", "Datagrams longer than the receive buffer, rejected."),
    *_family(
        "dta_translated_total", "Reports translated into memory operations, by primitive.", "primitive",
        (*OPCODE_LABELS.values(), EXTENSION),
    ),
    *_family(
        "dta_rejected_total", "Reports rejected, by reason.", "reason",
        tuple(reason.label for reason in DtaReason if reason),
    ),
    *_family(
        "dta_verbs_total", "Memory operations issued to collectors, by kind.", "kind",
        tuple(verb.name.lower() for verb in Verb),
    ),
    Counter("dta_verb_bytes_total", "Bytes written by these operations, without atomics."),
    Counter("dta_undelivered_verbs_total", "Memory operations dropped because their collector had gone."),
    Counter("dta_out_of_bounds_verbs_total", "Memory operations outside their store; any is a defect."),
    Counter("dta_unsendable_total", "Answers that could not be sent: no route to the reporter."),
    Counter("dta_acks_total", "Acknowledgments sent to reporters."),
    Counter("dta_nacks_total", "Negative acknowledgments sent to reporters."),
    Counter("dta_late_total", "Reports that filled a gap in the numbering: reordered or retransmitted."),
    Counter("dta_lost_reports", "Reports missing by sequence number, minus late arrivals.", gauge=True),
    Counter("dta_restarts_total", "Reporters that restarted their numbering."),
    Counter("dta_untracked_total", "Reports whose sequence numbers could not be tracked for lack of room."),
    *_family(
        "dta_paths_total", "Postcard paths written, by what flushed them from the cache.", "by",
        ("completed", "early", "aged", "flushed"),
    ),
    Counter("dta_duplicate_postcards_total", "Postcards that replaced one of the same hop."),
    Counter("dta_waiting_paths", "Paths in the postcard cache.", gauge=True),
    *_family(
        "dta_batches_total", "Append batches written, by what flushed them.", "by",
        ("full", "aged", "partial"),
    ),
    Counter("dta_waiting_entries", "List entries waiting for their batch.", gauge=True),
    *_family(
        "dta_path_sums_total", "Paths summed as their postcards passed (DTA 7), by result.", "sum",
        ("above", "below", "unanswered"),
    ),
    Counter("dta_reported_paths_total", "Paths above the threshold that were appended to their list."),
    Counter("dta_epochs_total", "Epochs started."),
    Counter("dta_saved_epochs_total", "Epochs moved into history."),
    Counter("dta_epoch_failures_total", "Epochs that the system could not start or save."),
    Counter("dta_collectors", "Connected collectors.", gauge=True),
    Counter("dta_connections_total", "Connections made to collectors."),
    Counter("dta_lost_connections_total", "Connections to collectors that were lost."),
    *(Counter(f"rdma_{counter.name}", counter.help, counter.label) for counter in RDMA_COUNTERS),
)  # fmt: skip
INDEX: Mapping[str, int] = {counter.key: number for number, counter in enumerate(COUNTERS)}
"""Counter key to its index."""


class TranslatorCounters(CountedRegion):
    """The counters of a translator or software NIC."""

    def __init__(self, folder: Path | None = None) -> None:
        """Continue the counters in `folder`; None: private memory. Raises RegionError."""
        super().__init__(None if folder is None else folder / FILE_NAME, KIND, VERSION, COUNTERS)


def read_counters(folder: Path) -> npt.NDArray[np.uint64]:
    """uint64 [COUNTERS]; zeros if no translator has run."""
    return read_counted(folder / FILE_NAME, KIND, VERSION, len(COUNTERS))
