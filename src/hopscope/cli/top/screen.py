"""State of the screen of `hopscope top`, and the keys that change it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...base.names import Names
from ...present.select import FLOW_ORDER, KINDS, EventFilter, FlowFilter, labelled
from ...present.text import UnreadableError
from ...wire.address import is_address
from .keys import BACKSPACE, ENTER, ESCAPE

HELP = "q quit   p pause   s sort flows   a all events   / filter   Esc no filter"
_ORDERS = tuple(FLOW_ORDER)


@dataclass
class Screen:
    """What is shown, and the line that is being typed."""

    filter: EventFilter
    names: Names
    order: str = "latency"
    """Order of the flows: a key of FLOW_ORDER."""
    all_events: bool = False
    """Also show routine events."""
    paused: bool = False
    typed: str | None = None
    """A filter that is being typed; None: keys are commands."""
    problem: str = ""
    """Why the last filter was rejected; empty: it was accepted."""
    ended: bool = False

    def press(self, keys: str) -> None:
        """Handle the keys that were typed."""
        for key in keys if not keys.startswith(ESCAPE) else ESCAPE:  # arrow keys, too, begin with Escape
            if self.typed is None:
                self._command(key)
            else:
                self._edit(key, self.typed)

    def line(self) -> str:
        """The last line of the screen: the filter being typed, or help on keys after any error."""
        if self.typed is not None:
            return f"filter: {self.typed}_   (kind, node, network or part of a flow: raised leaf-1 dport=53)"
        marks = f"[paused]  {HELP}" if self.paused else HELP
        return f"{self.problem}   {marks}" if self.problem else marks

    def _command(self, key: str) -> None:
        if key == "q":
            self.ended = True
        elif key in "p ":
            self.paused = not self.paused
        elif key == "s":
            self.order = _ORDERS[(_ORDERS.index(self.order) + 1) % len(_ORDERS)]
        elif key == "a":
            self.all_events = not self.all_events
        elif key == "/":
            self.typed, self.problem = "", ""
        elif key == ESCAPE:
            self.filter, self.problem = EventFilter(), ""

    def _edit(self, key: str, typed: str) -> None:
        if key == ESCAPE:
            self.typed = None
        elif key == BACKSPACE:
            self.typed = typed[:-1]
        elif key == ENTER:
            self.typed = None
            try:
                self.filter = parse_filter(typed, self.names)
            except UnreadableError as error:
                self.problem = str(error)
        elif key.isprintable():
            self.typed = typed + key


def parse_filter(text: str, names: Names) -> EventFilter:
    """A filter of words: kinds of events, nodes, networks, parts of a flow. Raises UnreadableError."""
    chosen = EventFilter()
    for word in text.split():
        node = None if is_address(word) else names.find_node(word)
        if word in KINDS:
            chosen = replace(chosen, kinds=(*chosen.kinds, *labelled("kind", (word,), KINDS)))
        elif node is not None:
            chosen = replace(chosen, nodes=(*chosen.nodes, node))
        else:
            flow = chosen.flow or FlowFilter()
            if "/" in word or ("=" not in word and "," not in word):
                flow = replace(flow, prefixes=(*flow.prefixes, *FlowFilter.parse("", (word,)).prefixes))
            else:
                parts = FlowFilter.parse(word)
                flow = replace(parts, prefixes=flow.prefixes)
            chosen = replace(chosen, flow=flow)
    return chosen
