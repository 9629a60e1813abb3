"""Options that filter reports, flows and events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from ...base.errors import HopscopeError
from ...base.names import MAX_PORT, Names
from ...present.select import FlowFilter
from ...present.text import UnreadableError
from .declare import Options, option

FlowOption = Annotated[
    str | None,
    option(
        "--flow FLOW",
        "Only this flow: SRC,DST,PROTO,SPORT,DPORT or a part, such as 192.0.2.1,192.0.2.9 or dport=53; or as "
        "tables print it.",
    ),
]
NodeOption = Annotated[
    list[str] | None, option("--node NODE", "Only with this node (number or name). Repeatable.")
]
EgressPortOption = Annotated[
    list[int] | None, option("--egress-port PORT", "Only this egress port. Repeatable.", min=0, max=MAX_PORT)
]
KindOption = Annotated[list[str] | None, option("--kind -k KIND", "Only this kind of event. Repeatable.")]


class FilterError(HopscopeError):
    """A filter cannot be parsed; the message says what was found and what was expected."""


@dataclass(frozen=True)
class FlowFilters(Options):
    """Filters by flow and node."""

    title: ClassVar = "Filters"

    flow: FlowOption = None
    prefix: list[str] | None = option(
        "--prefix PREFIX", "Only flows from or to this network, such as 192.0.2.0/24. Repeatable."
    )
    node: NodeOption = None

    def flow_filter(self) -> FlowFilter | None:
        """The filter of --flow and --prefix; None: neither was given. Raises FilterError."""
        return flow_filter(self.flow, self.prefix)

    def node_ids(self, names: Names) -> list[int]:
        """Ids of the nodes. Raises FilterError."""
        return node_ids(self.node or (), names)


def flow_filter(flow: str | None, prefixes: Sequence[str] | None) -> FlowFilter | None:
    """The filter of --flow and --prefix; None: neither was given. Raises FilterError."""
    if not flow and not prefixes:
        return None
    flag = f"--flow {flow}"
    try:
        parts = FlowFilter.parse(flow or "")
        flag = f"--prefix {', '.join(prefixes or ())}"
        return replace(parts, prefixes=FlowFilter.parse("", prefixes or ()).prefixes)
    except UnreadableError as error:
        raise FilterError(f"{flag}: {str(error).removeprefix('prefix: ')}") from None


def node_ids(nodes: Sequence[str], names: Names) -> list[int]:
    """Ids of nodes given by number or name. Raises FilterError."""
    found = []
    for node in nodes:
        number = names.find_node(node)
        if number is None:
            raise FilterError(f"--node: unknown node {node!r}, expected a number or a name of --names")
        found.append(number)
    return found
