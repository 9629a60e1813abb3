"""`hopscope fabric` commands that change a fabric while it runs: links, tracked flows."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ...base.errors import HopscopeError
from ...base.process.control_client import request
from ..options.declare import argument, option
from ..output.printer import Format, FormatOption, print_rows
from .start import running_fabric, tracked_flows

if TYPE_CHECKING:
    from ...testbed.fabric import FabricPlan

NameOption = Annotated[str, option("--name NAME", "Name of the fabric; several can be up at once.")]
SwitchArgument = Annotated[str, argument("SWITCH", "Name or number of the switch, such as leaf-0.")]
PortArgument = Annotated[int, argument("PORT", "Port number, as `status` shows it.")]
FLOW = "SRC:DST[:EVERY]"
TRACKED_COLUMNS = ("src", "dst", "every")
FOLLOW_SECONDS = 5.0
"""How long `link` waits, s, until the switches follow; they check ten times per second."""


class LinkState(StrEnum):
    """State of a link."""

    UP = "up"
    DOWN = "down"


def link(
    switch: SwitchArgument,
    port: PortArgument,
    state: Annotated[LinkState, argument("", "The new state of the link.")],
    name: NameOption = "fabric",
) -> None:
    """Set the link of a port down or up: switches route around links that are down.

    Frames that arrive on a link that is down are dropped and counted. Rejected if packets would cross more
    switches than label.labelling.max_hop.
    """
    from ...labels.registers import Registers
    from ...testbed import fabric

    found = running_fabric(name)
    parts = found.plan()
    topology = parts.topology
    row = topology.port_row(switch, port)
    ends = _ends(parts, row)
    registers = Registers.attach(found.registers, writable=True)
    down = set(registers.down.nonzero()[0].tolist())
    down = down | ends if state is LinkState.DOWN else down - ends
    longest = fabric.longest_path(parts, down)
    if longest > found.max_hop:
        raise HopscopeError(
            f"packets would cross {longest} switches, and label.labelling.max_hop is {found.max_hop}"
        )
    numbers = [(parts.ports[end].node, parts.ports[end].number) for end in ends]
    registers.set_link(numbers, state is LinkState.UP)
    until = time.monotonic() + FOLLOW_SECONDS
    while registers.followed[0] != registers.changes[0] and time.monotonic() < until:
        time.sleep(0.01)
    apart = fabric.pairs_without_path(parts, down)
    without = f"; {apart} pairs of hosts have no path" if apart else ""
    at = topology.switch_name(int(topology.ports[row]["node_id"]))
    print(f"{at} port {port} ({topology.port_name(row)}) is {state.value}{without}")


def _ends(parts: FabricPlan, row: int) -> set[int]:
    """Rows of `parts.ports` at both ends of the link of a topology's port; one row for a host's link."""
    rows = {row, int(parts.topology.ports[row]["reverse"])}
    return {at for at, port in enumerate(parts.ports) if port.row in rows}


def track(
    flows: list[str] | None = argument(
        f"[{FLOW}]...",
        "Flows by hosts or addresses: all switches label 1 in EVERY (100) of their packets.",
        None,
        show_default=False,
    ),
    name: NameOption = "fabric",
    form: FormatOption = Format.TABLE,
) -> None:
    """Track flows from now on; print the tracked flows."""
    print_rows(form, TRACKED_COLUMNS, _change(name, "add", flows or ()))


def untrack(
    flows: Annotated[list[str], argument("SRC:DST...", "Flows by hosts or addresses.")],
    name: NameOption = "fabric",
    form: FormatOption = Format.TABLE,
) -> None:
    """Stop tracking flows; print the remaining ones."""
    print_rows(form, TRACKED_COLUMNS, _change(name, "remove", flows))


def _change(name: str, what: str, flows: Any) -> list[dict[str, Any]]:
    """Ask the collector of a fabric to track flows, or to stop. Raises HopscopeError."""
    found = running_fabric(name)
    topology = found.plan().topology
    chosen = [flow.model_dump() for text in flows for flow in tracked_flows(text, topology)]
    asked = {"set_tracked": {what: chosen}} if chosen else {"tracked": {}}
    return list(request(Path(found.data), asked)["tracked"])
