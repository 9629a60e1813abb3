"""Counters of a translator."""

from ..base.counter import Counter, family, late_kernels
from ..memory.counter_region import CounterFile
from ..rdma.counters import COUNTERS as RDMA_COUNTERS
from ..rdma.records import Verb
from ..wire.dta.forms import Opcode
from ..wire.reasons import DtaReason

EXTENSION = "extension"
"""Label of reports for extension primitives."""
OPCODE_LABELS = {int(opcode): opcode.name.lower().replace("_", "-") for opcode in Opcode}
TRANSLATOR_COUNTERS = CounterFile("translator.counters", "translator", 1, (
    Counter("dta_datagrams_total", "Datagrams received by the translator.", of="received.datagrams"),
    Counter("dta_bytes_total", "Bytes of these datagrams.", of="received.bytes"),
    Counter(
        "dta_kernel_drops_total", "Datagrams dropped by the kernel: the socket buffer was full.",
        of="received.kernel_drops_total",
    ),
    Counter(
        "dta_denied_total", "Datagrams from sources that are not on the allow list.",
        of="received.denied_frames_total",
    ),
    Counter(
        "dta_oversized_total", "Datagrams longer than the receive buffer, rejected.",
        of="received.oversized_frames_total",
    ),
    *family(
        "dta_translated_total", "Reports translated into memory operations, by primitive.", "primitive",
        (*OPCODE_LABELS.values(), EXTENSION), of="translated.{}",
    ),
    *family(
        "dta_rejected_total", "Reports rejected, by reason.", "reason",
        {reason.label: int(reason) for reason in DtaReason if reason}, of="translator.rejected.{}",
    ),
    *family(
        "dta_verbs_total", "Memory operations issued to collectors, by kind.", "kind",
        {verb.name.lower(): int(verb) for verb in Verb}, of="translator.fanout.kinds.{}",
    ),
    Counter(
        "dta_verb_bytes_total", "Bytes written by these operations, without atomics.",
        of="translator.fanout.written_bytes",
    ),
    Counter(
        "dta_undelivered_verbs_total", "Memory operations dropped because their collector had disconnected.",
        of="translator.fanout.undelivered",
    ),
    Counter(
        "dta_out_of_bounds_verbs_total", "Memory operations outside their store; any is a defect.",
        of="output.transport.out_of_bounds",
    ),
    Counter(
        "dta_unsendable_total", "Answers that could not be sent: no route to the reporter.",
        of="received.unsendable",
    ),
    Counter("dta_acks_total", "Acknowledgments sent to reporters.", of="received.acks"),
    Counter(
        "dta_nacks_total", "Negative acknowledgments sent to reporters.", of="received.nacks",
    ),
    Counter(
        "dta_late_total", "Reports that filled a gap in the numbering: reordered or retransmitted.",
        of="received.late",
    ),
    Counter(
        "dta_lost_reports",
        "Reports missing by sequence number (also those that cannot be read), or rejected for lack of room or"
        " a collector, minus late ones.",
        of="received.lost", gauge=True,
    ),
    Counter(
        "dta_restarts_total", "Reporters that restarted their numbering.",
        of="received.restarts",
    ),
    Counter(
        "dta_untracked_total", "Reports whose sequence numbers could not be tracked for lack of room.",
        of="received.untracked",
    ),
    Counter(
        "dta_replaced_reporters_total",
        "Reporters evicted to make room for others: silent ones, or reporters of an address that has "
        "many.",
        of="received.replaced",
    ),
    Counter(
        "dta_reporters_full",
        "1 if reports could not be tracked within the last minute, else 0.",
        of="reporters_full", gauge=True,
    ),
    *family(
        "dta_paths_total", "Postcard paths written, by what flushed them from the cache.", "by",
        ("completed", "early", "aged", "flushed"), of="writers.postcarding.{}",
    ),
    Counter(
        "dta_duplicate_postcards_total", "Postcards that replaced one of the same hop.",
        of="writers.postcarding.duplicates",
    ),
    Counter(
        "dta_waiting_paths", "Paths in the postcard cache.", of="writers.postcarding.waiting", gauge=True,
    ),
    Counter(
        "dta_combined_increments_total", "Additions to counters that were combined with others.",
        of="writers.key-increment.combined",
    ),
    Counter(
        "dta_waiting_counters", "Counters with additions that are not written yet.",
        of="writers.key-increment.waiting", gauge=True,
    ),
    *family(
        "dta_batches_total", "Append batches written, by what flushed them.", "by",
        ("full", "aged", "partial"), of="writers.append.{}",
    ),
    Counter(
        "dta_waiting_entries", "List entries waiting for their batch.",
        of="writers.append.waiting", gauge=True,
    ),
    *family(
        "dta_path_sums_total", "Paths summed as their postcards passed (DTA 7), by result.", "sum",
        ("above", "below", "unanswered"), of="options.slow_paths.sums.counters.{}",
    ),
    Counter(
        "dta_reported_paths_total", "Paths above the threshold that were appended to their list.",
        of="options.slow_paths.appended",
    ),
    Counter(
        "dta_heavy_hitters_total", "Keys reported because their counters grew by the threshold.",
        of="options.heavy_hitters.appended",
    ),
    late_kernels("dta_"),
    Counter("dta_epochs_total", "Epochs started.", of="output.stores.epochs_begun"),
    Counter("dta_saved_epochs_total", "Epochs moved into history.", of="output.stores.epochs_saved"),
    Counter(
        "dta_epoch_failures_total", "Epochs that the system could not start or save.",
        of="output.stores.epoch_failures",
    ),
    Counter("dta_collectors", "Connected collectors.", of="collectors", gauge=True),
    Counter(
        "dta_owner_generation", "Generation of the table of owners by which it writes; 0: it follows none.",
        of="output.generation", gauge=True,
    ),
    Counter("dta_connections_total", "Connections made to collectors.", of="output.connections.made"),
    Counter(
        "dta_lost_connections_total", "Connections to collectors that were lost.",
        of="output.connections.lost",
    ),
    Counter(
        "rdma_received_packets_total", "Packets received from collectors' addresses.",
        of="output.received.packets",
    ),
    Counter(
        "rdma_rejected_packets_total", "Of these, packets that were damaged, repeated or of no connection.",
        of="output.received.rejected",
    ),
    Counter(
        "rdma_denied_total", "Datagrams to the port of RoCEv2 from other addresses.",
        of="output.received.denied",
    ),
    *(
        Counter(f"rdma_{counter.name}", counter.help, counter.label, of=f"output.requesters.{counter.key}")
        for counter in RDMA_COUNTERS
    ),
))  # fmt: skip
"""Of a translator, in the folder of its stores."""
