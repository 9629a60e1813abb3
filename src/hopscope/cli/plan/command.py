"""`hopscope plan`: what telemetry of a certain size needs, before it is built."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...base.errors import HopscopeError
from .label import label
from .options import JsonOption, PlotOption

if TYPE_CHECKING:
    from ...direct.plan import NetworkPlan, StorePlan

app = typer.Typer(help="Plan memory, collectors and label intervals.", no_args_is_help=True)
app.command()(label)


@app.command()
def direct(
    flows: Annotated[
        float | None,
        typer.Option(
            "--flows", metavar="COUNT", help="Plan memory for this many flows, as 100e6.", show_default=False
        ),
    ] = None,
    data_bytes: Annotated[
        int, typer.Option("--data-bytes", metavar="BYTES", help="Data of a report, 1 to 64.")
    ] = 4,
    success: Annotated[
        float, typer.Option("--success", metavar="CHANCE", help="Probability of finding a flow.")
    ] = 0.99,
    oldest: Annotated[
        bool, typer.Option("--oldest", help="--success is for the oldest flow, not the mean.")
    ] = False,
    wrong: Annotated[
        float, typer.Option("--wrong", metavar="CHANCE", help="Maximum probability of a wrong answer.")
    ] = 1e-9,
    copies: Annotated[
        int | None,
        typer.Option(
            "--copies",
            metavar="N",
            help="Maximum copies to compare (default 4); for collectors, copies of a report "
            "(default 1).",
            show_default=False,
        ),
    ] = None,
    switches: Annotated[
        int | None,
        typer.Option(
            "--switches", metavar="COUNT", help="Plan collectors for this many switches.", show_default=False
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            "--rate", metavar="RATE", help="Reports per second of one switch, as 19e6.", show_default=False
        ),
    ] = None,
    system: Annotated[
        str | None,
        typer.Option(
            "--system",
            metavar="NAME",
            help="The rate of a published system (DTA Table 1): int-postcards, marple-flowlet, marple-tcp "
            "or netseer.",
            show_default=False,
        ),
    ] = None,
    batch: Annotated[
        int, typer.Option("--batch", metavar="ENTRIES", help="Append: entries in one write, 1 to 16.")
    ] = 16,
    hops: Annotated[
        int, typer.Option("--hops", metavar="HOPS", help="Postcarding: postcards in one write.")
    ] = 5,
    nic_rate: Annotated[
        float,
        typer.Option(
            "--nic-rate", metavar="RATE", help="Writes per second of a collector's NIC; DTA measured 100e6."
        ),
    ] = 100e6,
    atomic_rate: Annotated[
        float | None,
        typer.Option(
            "--atomic-rate",
            metavar="RATE",
            help="Atomics per second of the NIC. Default: as writes, since the papers give no number; real "
            "NICs do fewer.",
            show_default=False,
        ),
    ] = None,
    line_rate: Annotated[
        float, typer.Option("--line-rate", metavar="BITS", help="Line rate of the NIC, bit/s.")
    ] = 100e9,
    core_rate: Annotated[
        float,
        typer.Option(
            "--core-rate",
            metavar="RATE",
            help="Reports per second that one CPU core stores; 1.9e6 is DTA Fig. 3.",
        ),
    ] = 1.9e6,
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Memory for directly written reports, and collectors for a network of switches.

    --flows computes the memory, copies and checksum that Key-Write needs, and the lifetime of an entry.
    --switches computes the number of collectors by primitive. Both can be given.
    """
    from ...direct.plan import RATES, Nic, plan_network, plan_store

    if flows is None and switches is None:
        raise HopscopeError("nothing to plan: give --flows COUNT, --switches COUNT, or both")
    if system is not None:
        if rate is not None:
            raise HopscopeError("--rate and --system exclude each other")
        if system not in RATES:
            raise HopscopeError(f"--system {system}: expected {', '.join(RATES)}")
        rate = RATES[system]
    if switches is not None and rate is None:
        raise HopscopeError(
            "--switches needs --rate RATE, reports per second of one switch, or --system NAME"
        )
    store = network = None
    if flows is not None:
        store = plan_store(
            flows, data_bytes, success, oldest=oldest, wrong=wrong, max_copies=4 if copies is None else copies
        )
    if switches is not None and rate is not None:
        nic = Nic(nic_rate, nic_rate if atomic_rate is None else atomic_rate, line_rate)
        network = plan_network(
            switches, rate, nic=nic, copies=1 if copies is None else copies, data_bytes=data_bytes,
            checksum_bits=store.best.checksum_bits if store else 32, batch=batch, hops=hops,
            core_rate=core_rate,
        )  # fmt: skip
    total = rate * (switches or 1) if rate is not None else None
    if plot is not None:
        from .plot import save

        save(plot, store, network)
    if as_json:
        print(json.dumps(_objects(store, network, total)))
    else:
        from .view import show

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
