"""`hopscope plan`: what INT costs, and the memory, collectors, clusters and label intervals that it needs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ...base.errors import HopscopeError
from ..options.declare import Commands, Options, option
from ..output.printer import Summary
from .cluster import cluster
from .label import label
from .options import PlanOutput
from .overhead import overhead

if TYPE_CHECKING:
    from ...direct.plan import NetworkPlan, StorePlan

app = Commands(help="Plan INT, memory, collectors, clusters and label intervals.")
app.command("int")(overhead)
app.command()(label)
app.command()(cluster)


@dataclass(frozen=True)
class ReportOptions(Options):
    """The reports, and how they are written."""

    data_bytes: int = option("--data-bytes BYTES", "Data of a report, 1 to 64.", 4)
    copies: int | None = option(
        "--copies N",
        "Memory: maximum copies to compare; collectors: copies of a report.",
        show_default="memory: 4; collectors: 1",
    )
    rate: float | None = option("--rate RATE", "Reports per second of one switch, such as 19e6.")
    system: str | None = option(
        "--system NAME",
        "The rate of a published system (DTA Table 1): int-postcards, marple-flowlet, marple-tcp or netseer.",
    )

    def reports_per_second(self) -> float | None:
        """Reports per second of one switch; None: not given. Raises HopscopeError."""
        from ...direct.plan import RATES

        if self.system is None:
            return self.rate
        if self.rate is not None:
            raise HopscopeError("--rate and --system exclude each other")
        if self.system not in RATES:
            raise HopscopeError(f"--system {self.system}: expected {', '.join(RATES)}")
        return RATES[self.system]


@dataclass(frozen=True)
class MemoryOptions(Options):
    """The queries that a store must answer."""

    title: ClassVar = "Memory"

    flows: float | None = option("--flows COUNT", "Plan memory for this many flows, such as 100e6.")
    success: float = option("--success SHARE", "Probability of finding a flow.", 0.99)
    oldest: bool = option("--oldest", "--success is for the oldest flow, not the mean.", False)
    wrong: float = option("--wrong SHARE", "Maximum probability of a wrong answer.", 1e-9)


@dataclass(frozen=True)
class CollectorOptions(Options):
    """The reports that collectors receive."""

    title: ClassVar = "Collectors"

    switches: int | None = option("--switches COUNT", "Plan collectors for this many switches.")
    batch: int = option("--batch ENTRIES", "Append: entries in one write, 1 to 16.", 16)
    hops: int = option("--hops HOPS", "Postcarding: postcards in one write.", 5)
    nic_rate: float = option(
        "--nic-rate RATE", "Writes per second of a collector's NIC; DTA measured 100e6.", 100e6
    )
    atomic_rate: float | None = option(
        "--atomic-rate RATE",
        "Atomics per second of the NIC. Default: as writes, since the papers give no number; real NICs do "
        "fewer.",
    )
    line_rate: float = option("--line-rate BITS", "Line rate of the NIC, bit/s.", 100e9)
    core_rate: float = option(
        "--core-rate RATE", "Reports per second that one CPU core stores; 1.9e6 is DTA Fig. 3.", 1.9e6
    )


@app.command()
def direct(
    memory: MemoryOptions, collectors: CollectorOptions, reports: ReportOptions, output: PlanOutput
) -> None:
    """Memory for directly written reports, and collectors for a network of switches.

    --flows computes the memory, copies and checksum that Key-Write needs, and the lifetime of an entry.
    --switches computes the number of collectors by primitive. Both can be given.
    """
    from ...direct.plan import Nic, plan_network, plan_store

    flows, switches = memory.flows, collectors.switches
    if flows is None and switches is None:
        raise HopscopeError("nothing to plan: give --flows COUNT, --switches COUNT, or both")
    rate, copies = reports.reports_per_second(), reports.copies
    if switches is not None and rate is None:
        raise HopscopeError(
            "--switches needs --rate RATE, reports per second of one switch, or --system NAME"
        )
    store = network = None
    if flows is not None:
        store = plan_store(
            flows, reports.data_bytes, memory.success, oldest=memory.oldest, wrong=memory.wrong,
            max_copies=4 if copies is None else copies,
        )  # fmt: skip
    if switches is not None and rate is not None:
        atomics = collectors.nic_rate if collectors.atomic_rate is None else collectors.atomic_rate
        nic = Nic(collectors.nic_rate, atomics, collectors.line_rate)
        network = plan_network(
            switches, rate, nic=nic, copies=1 if copies is None else copies, data_bytes=reports.data_bytes,
            checksum_bits=store.best.checksum_bits if store else 32, batch=collectors.batch,
            hops=collectors.hops, core_rate=collectors.core_rate,
        )  # fmt: skip
    total = rate * (switches or 1) if rate is not None else None
    if output.plot is not None:
        from .direct_view import save

        save(output.plot, store, network)
    if output.form is Summary.JSON:
        print(json.dumps(_objects(store, network, total)))
    else:
        from .direct_view import show

        show(store, network, total)


def _objects(store: StorePlan | None, network: NetworkPlan | None, total: float | None) -> dict[str, Any]:
    """The plans as JSON objects; with `survives_seconds` if a rate is known."""
    from dataclasses import asdict

    found: dict[str, Any] = {}
    if store is not None:
        found["store"] = asdict(store)
        if total is not None:
            for choice in (found["store"]["best"], *found["store"]["choices"]):
                choice["survives_seconds"] = choice["survives"] / total
                choice["half_life_seconds"] = choice["half_life"] / total
    if network is not None:
        found["network"] = asdict(network)
        for row, load in zip(found["network"]["loads"], network.loads, strict=True):
            row.update(reports=load.reports, limit=load.limit)
    return found
