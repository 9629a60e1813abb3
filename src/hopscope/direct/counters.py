"""Counters of a translator, declared once, in a region that `/metrics` reads."""

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
"""Label of reports for primitives that are not the paper's."""


def _family(name: str, text: str, label: str, values: tuple[str, ...]) -> tuple[Counter, ...]:
    return tuple(Counter(name, text, (label, value)) for value in values)


OPCODE_LABELS = {int(opcode): opcode.name.lower().replace("_", "-") for opcode in Opcode}
COUNTERS: tuple[Counter, ...] = (
    Counter("dta_datagrams_total", "Datagrams handed over by the socket of the translator."),
    Counter("dta_bytes_total", "Bytes of these datagrams."),
    Counter("dta_kernel_drops_total", "Datagrams that the kernel dropped: the socket's buffer was full."),
    Counter("dta_denied_total", "Datagrams of sources that are not on the list of allowed sources."),
    Counter("dta_oversized_total", "Datagrams longer than the receive buffer, refused."),
    *_family(
        "dta_translated_total", "Reports translated into memory operations, by primitive.", "primitive",
        (*OPCODE_LABELS.values(), EXTENSION),
    ),
    *_family(
        "dta_refused_total", "Reports refused, by reason.", "reason",
        tuple(reason.label for reason in DtaReason if reason),
    ),
    *_family(
        "dta_verbs_total", "Memory operations given to collectors, by kind.", "kind",
        tuple(verb.name.lower() for verb in Verb),
    ),
    Counter("dta_verb_bytes_total", "Bytes that these write, atomics not counted."),
    Counter("dta_undelivered_verbs_total", "Memory operations dropped: their collector was gone meanwhile."),
    Counter("dta_out_of_bounds_verbs_total", "Memory operations outside their store: none, or a defect."),
    Counter("dta_unsendable_total", "Answers that the system did not send: no route to the reporter."),
    Counter("dta_acks_total", "Acknowledgments sent to reporters."),
    Counter("dta_nacks_total", "Negative acknowledgments sent to reporters."),
    Counter("dta_late_total", "Reports with a number that had been missing: reordered, or sent again."),
    Counter("dta_lost_reports", "Reports missing by sequence number, less those that came late.", gauge=True),
    Counter("dta_restarts_total", "Reporters that began their numbering anew."),
    Counter("dta_untracked_total", "Reports of reporters for which there was no room to follow numbers."),
    *_family(
        "dta_paths_total", "Paths of postcards written, by what sent them out of the cache.", "by",
        ("completed", "early", "aged", "flushed"),
    ),
    Counter("dta_duplicate_postcards_total", "Postcards of a hop that had one, which they replaced."),
    Counter("dta_waiting_paths", "Paths in the cache of postcards.", gauge=True),
    *_family(
        "dta_batches_total", "Batches of Append written, by what sent them.", "by",
        ("full", "aged", "partial"),
    ),
    Counter("dta_waiting_entries", "Entries of lists that wait for their batch.", gauge=True),
    *_family(
        "dta_path_sums_total", "Paths summed as their postcards passed (DTA 7), by the sum.", "sum",
        ("above", "below", "unanswered"),
    ),
    Counter("dta_told_paths_total", "Of these, paths above that were appended to their list."),
    Counter("dta_epochs_total", "Epochs begun."),
    Counter("dta_saved_epochs_total", "Epochs moved into the history."),
    Counter("dta_epoch_failures_total", "Times that the system refused a new epoch, or one to be kept."),
    Counter("dta_collectors", "Collectors that are connected.", gauge=True),
    Counter("dta_connections_total", "Connections to collectors made."),
    Counter("dta_lost_connections_total", "Connections to collectors that ended by themselves."),
    *(Counter(f"rdma_{one.name}", one.help, one.label) for one in RDMA_COUNTERS),
)  # fmt: skip
INDEX: Mapping[str, int] = {counter.key: number for number, counter in enumerate(COUNTERS)}
"""Key of a counter to its place."""


class Counted(CountedRegion):
    """The counters of a translator or software NIC."""

    def __init__(self, folder: Path | None = None) -> None:
        """Those in `folder` are continued; None: private memory. Raises RegionError."""
        super().__init__(None if folder is None else folder / FILE_NAME, KIND, VERSION, COUNTERS)


def read_counters(folder: Path) -> npt.NDArray[np.uint64]:
    """uint64 [COUNTERS]; zeros where no translator has run."""
    return read_counted(folder / FILE_NAME, KIND, VERSION, len(COUNTERS))
