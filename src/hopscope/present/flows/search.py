"""Search for flows by a text, with any parts of a 5-tuple and switches on the path.

Words are separated by spaces; a flow must match all of them.

| word | flows |
|---|---|
| `10.0.0.0/8`, `10.1.2.3:443`, `[2001:db8::1]:443`, `443` | this address, network or port at either end |
| `A > B`, `A >`, `> B`; `src:A`, `dst:B` | from A, to B |
| `port:443`, `sport:443`, `dport:443` | with this port |
| `tcp`, `proto:6` | of this protocol |
| `leaf-1`, `node:7` | with this switch on their path |
| `node:leaf-1 egress:3` | that leave this switch by this port |
| `id:0123456789abcdef`, `path:0123456789abcdef` | with this id; with this hash of their path (live flows) |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ...detect.records import FLOW
from ...settings.configuration.errors import did_you_mean
from ...wire import address, protocols
from ...wire.records import Records
from ..collector_state import CollectorState
from ..select import FlowFilter, Mask
from ..text import UnreadableError, protocol

if TYPE_CHECKING:
    from ...history.reading.filters import Filters, Flow

MAX_WORDS = 16
MAX_EITHER = 4
"""Largest number of words that match either end: each one doubles the combinations."""
KEYS = ("src", "dst", "port", "sport", "dport", "proto", "node", "egress", "id", "path")
_WORD = re.compile(r'(?:[^\s">]|"[^"]*")+|>')
_HEX = re.compile(r"[0-9a-fA-F]{16}")
_NOT_STORED = ("dscp", "vlan", "ttl", "tos", "mac", "ecn")
_ONCE = {"node": "switch", "egress": "egress port", "flow_id": "flow id", "path_hash": "path"}
_NO_FLOWS = np.zeros(0, FLOW)
_EXPECTED = "expected an address, a network, ADDRESS:PORT, a port, a protocol or the name of a switch"


@dataclass(frozen=True, slots=True)
class FlowSearch:
    """The conditions that a text states; all of them must hold."""

    choices: tuple[FlowFilter, ...] = (FlowFilter(),)
    """Alternatives for the 5-tuple, one of which must match. If empty, no flow matches."""
    node: int | None = None
    """A switch on the path."""
    egress: int | None = None
    """The egress port of that switch."""
    flow_id: int | None = None
    path_hash: int | None = None

    def mask(self, rows: Records, state: CollectorState) -> Mask:
        """bool [rows]: which FLOW records match."""
        kept = np.zeros(len(rows), np.bool_)
        for choice in self.choices:
            kept |= choice.mask(rows)
        for name, number in (("flow_id", self.flow_id), ("path_hash", self.path_hash)):
            if number is not None:
                kept &= rows[name] == np.uint64(number)
        if self.node is not None:
            kept &= state.passes(rows, self.node, self.egress)
        return kept

    def narrowed(self, chosen: FlowFilter, node: int | None) -> FlowSearch:
        """This search with these further conditions. Raises UnreadableError."""
        chosen.mask(_NO_FLOWS)
        proto = protocol(chosen.proto) if isinstance(chosen.proto, str) else chosen.proto
        found = self._with([FlowFilter(chosen.src, chosen.dst, proto, chosen.sport, chosen.dport)])
        if chosen.port is not None:
            found = found._with([FlowFilter(sport=chosen.port), FlowFilter(dport=chosen.port)])
        if chosen.prefixes:
            ends = [(FlowFilter(src=prefix), FlowFilter(dst=prefix)) for prefix in chosen.prefixes]
            found = found._with([end for both in ends for end in both])
        return found if node is None else found._once("node", node, str(node))

    def _with(self, alternatives: Sequence[FlowFilter]) -> FlowSearch:
        """This search, with the condition that also one of these alternatives matches."""
        both = (_both(known, more) for known in self.choices for more in alternatives)
        return replace(self, choices=tuple(dict.fromkeys(choice for choice in both if choice is not None)))

    def _once(self, name: str, value: int, word: str) -> FlowSearch:
        if getattr(self, name) not in (None, value):
            raise UnreadableError(f"q: {word[:60]}: expected one {_ONCE[name]}, found two")
        return replace(self, **{name: value})  # type: ignore[arg-type]

    @property
    def of_past(self) -> bool:
        """Whether a flow that has left can match."""
        return bool(self.choices) and self.path_hash is None

    def of_history(self, start_ns: int | None, end_ns: int | None) -> Filters:
        """This search within a time range, as filters for events of history."""
        found: Filters = {"start": start_ns, "end": end_ns}
        flows = [self._flow(choice) for choice in self.choices]
        if len(flows) == 1:
            found["flow"] = flows[0]
        else:
            found["flows"] = flows
        if self.node is not None:
            found["nodes"] = (self.node,)
        if self.egress is not None:
            found["ports"] = (self.egress,)
        return found

    def _flow(self, choice: FlowFilter) -> Flow:
        from ...history.reading.filters import Flow

        number = protocol(choice.proto) if isinstance(choice.proto, str) else choice.proto
        return Flow(choice.src, choice.dst, choice.sport, choice.dport, number, self.flow_id)


def parse_search(text: str, find_node: Callable[[str], int | None], nodes: Iterable[str] = ()) -> FlowSearch:
    """Parse a search; an empty text selects all flows. Raises UnreadableError, with one line that names the
    word.

    `find_node` returns the id of a switch, given its name or number. `nodes`: names that an error may
    suggest.
    """
    text = text.replace("->", ">").replace("→", ">")
    if text.count('"') % 2:
        raise UnreadableError('q: found a single ", expected two around a name with spaces')
    words = _WORD.findall(text)
    if len(words) > MAX_WORDS:
        raise UnreadableError(f"q: expected at most {MAX_WORDS} words, found {len(words)}")
    if words.count(">") > 1 or words == [">"]:
        raise UnreadableError(
            "q: expected one > between a source and a destination, as in 10.0.0.0/8 > 10.1.2.3"
        )
    return _Parser(find_node, nodes).parse(words)


class _Parser:
    def __init__(self, find_node: Callable[[str], int | None], nodes: Iterable[str]) -> None:
        self._find, self._nodes = find_node, nodes
        self._found = FlowSearch()
        self._either = 0

    def parse(self, words: list[str]) -> FlowSearch:
        for at, word in enumerate(words):
            if word == ">":
                continue
            side = "dst" if at and words[at - 1] == ">" else None
            side = "src" if words[at + 1 : at + 2] == [">"] else side
            self._word(word.replace('"', ""), side)
        if self._found.egress is not None and self._found.node is None:
            raise UnreadableError("q: egress: expected the switch, too, as in node:leaf-1 egress:3")
        return self._found

    def _word(self, word: str, side: str | None) -> None:
        key, colon, value = word.partition(":")
        key = key.lower()
        if side is not None:
            self._end(word, side)
        elif colon and key in KEYS:
            self._keyed(key, value)
        elif key in _NOT_STORED:
            raise UnreadableError(f"q: {key}: flows are known by their 5-tuple, {key} is not stored")
        elif key in protocols.NUMBERS and not colon:
            self._also(FlowFilter(proto=protocols.NUMBERS[key]))
        elif word in self._nodes:
            self._node(word)
        elif _HEX.fullmatch(word):
            self._found = self._found._once("flow_id", int(word, 16), word)
        else:
            self._end(word, None)

    def _keyed(self, key: str, value: str) -> None:
        if not value:
            raise UnreadableError(f"q: {key}: expected a value right after the colon")
        if key in ("src", "dst"):
            self._end(value, key)
        elif key == "port":
            self._end(f":{value}", None)
        elif key in ("sport", "dport"):
            self._also(FlowFilter(sport=_port(value)) if key == "sport" else FlowFilter(dport=_port(value)))
        elif key == "proto":
            self._also(FlowFilter(proto=_protocol(value)))
        elif key == "egress":
            self._found = self._found._once("egress", _port(value), value)
        elif key == "node":
            self._node(value)
        else:
            if not _HEX.fullmatch(value):
                raise UnreadableError(f"q: {key}: expected 16 hexadecimal digits, found {value[:60]!r}")
            self._found = self._found._once("flow_id" if key == "id" else "path_hash", int(value, 16), value)

    def _node(self, word: str) -> None:
        node = self._find(word)
        if node is None:
            names = did_you_mean(word, list(self._nodes))
            raise UnreadableError(f"q: node: found {word[:60]!r}, expected a node id or a name{names}")
        self._found = self._found._once("node", node, word)

    def _also(self, *alternatives: FlowFilter) -> None:
        self._found = self._found._with(alternatives)

    def _end(self, word: str, side: str | None) -> None:
        """Add a condition for an end of a flow: a network, a port, or both."""
        network, port = self._read_end(word)
        source, destination = FlowFilter(src=network, sport=port), FlowFilter(dst=network, dport=port)
        if side is not None:
            self._also(source if side == "src" else destination)
            return
        self._either += 1
        if self._either > MAX_EITHER:
            raise UnreadableError(
                f"q: {word[:60]}: expected at most {MAX_EITHER} words for either end; say src: or dst:"
            )
        self._also(source, destination)

    def _read_end(self, word: str) -> tuple[str | None, int | None]:
        if word.isdecimal():
            return None, _port(word)
        network, port = word, None
        if match := re.fullmatch(r"\[([^\]]*)\](?::(\d+))?|([^:]*):(\d+)", word):
            network = match[1] or match[3] or ""
            digits = match[2] or match[4]
            port = None if digits is None else _port(digits)
        if not network and port is not None:
            return None, port
        try:
            address.network(network)
        except ValueError:
            names = did_you_mean(word, [*self._nodes, *protocols.NUMBERS])
            raise UnreadableError(f"q: found {word[:60]!r}, {_EXPECTED}{names}") from None
        return network, port


def _both(one: FlowFilter, other: FlowFilter) -> FlowFilter | None:
    """The filter that matches if both filters match; None if they exclude each other."""
    found = {}
    for name in ("src", "dst", "proto", "sport", "dport"):
        values = [value for part in (one, other) if (value := getattr(part, name)) is not None]
        if len(values) == 2 and values[0] != values[1]:
            inner = _inner(*values) if name in ("src", "dst") else None
            if inner is None:
                return None
            values = [inner]
        found[name] = values[0] if values else None
    return FlowFilter(**found)  # type: ignore[arg-type]


def _inner(one: str, other: str) -> str | None:
    """The smaller of two networks if the other one contains it, else None."""
    (first, last), (other_first, other_last) = address.network(one), address.network(other)
    if other_first <= first and last <= other_last:
        return one
    return other if first <= other_first and other_last <= last else None


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 5 and int(text) <= 0xFFFF):
        raise UnreadableError(f"q: expected a port from 0 to 65535, found {text[:60]!r}")
    return int(text)


def _protocol(text: str) -> int:
    try:
        return protocol(text)
    except UnreadableError as error:
        raise UnreadableError(f"q: {error}") from None
