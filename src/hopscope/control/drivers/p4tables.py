"""The state of a switch as entries of the tables of `p4/` (its README has their names and meanings)."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from ...labels.records import Chance
from ...settings.label import LabellingSettings, TrackedFlowSettings
from ...settings.watch import WatchSettings
from ..driver import RefusedError

WATCH = {4: "watch_ipv4", 6: "watch_ipv6"}
TRACK = {4: "track_ipv4", 6: "track_ipv6"}
PORTS, CHANCES = "label_ports", "chance_table"
TABLES = (*WATCH.values(), *TRACK.values(), PORTS, CHANCES)
ALL = 0xFFFFFFFF
"""Sampling share, of 2^32, that stands for every packet."""
_FIRST_PRIORITY = 1024
"""Priority of the first rule of a watch list; each following rule has one less."""
_TRACK_PRIORITY = 10
_ROWS = 1024
"""Rows of the counters of tracked flows."""
_BITS = {4: 32, 6: 128}
_PROTOCOL = {4: "protocol", 6: "next_header"}
_PROTOCOLS = {"any": None, "tcp": 6, "udp": 17}
_ACTIONS: dict[str, str] = {"md": "start", "xd": "report_only"}
UNKNOWN_TABLE = ((0.0,),)
"""Stands for a table of probabilities that another controller has written."""
_KNOWN = (Chance.NEVER, Chance.F1, Chance.F2, Chance.F2_LISTING, Chance.F3)
_LONGEST_US = (1 << 32) - 1
Match = tuple[tuple[str, Any], ...]
Update = Literal["+", "~", "-"]


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a table. Names of keys lack the part up to their last dot."""

    table: str
    match: Match
    """(Key, value), sorted by key; a value is a number, (value, mask) or (first, last). Keys that match
    everything are absent.
    """
    action: str
    params: tuple[tuple[str, int], ...]
    """(Parameter, value), sorted by parameter."""
    priority: int = 0

    @property
    def key(self) -> tuple[str, Match, int]:
        """Identity of the entry in its switch."""
        return self.table, self.match, self.priority

    def with_params(self, **params: int) -> Entry:
        """A copy with new values of these parameters."""
        return replace(self, params=tuple(sorted((dict(self.params) | params).items())))


def entry(table: str, match: dict[str, Any], action: str, params: dict[str, int], priority: int = 0) -> Entry:
    """An entry with sorted keys and parameters."""
    return Entry(table, tuple(sorted(match.items())), action, tuple(sorted(params.items())), priority)


def updates(have: Iterable[Entry], want: Iterable[Entry]) -> Iterator[tuple[Update, Entry]]:
    """Updates that turn `have` into `want`: inserts and modifications, then deletions."""
    before, after = ({each.key: each for each in entries} for entries in (have, want))
    for key, each in after.items():
        if key not in before:
            yield "+", each
        elif before[key] != each:
            yield "~", each
    for key, each in before.items():
        if key not in after:
            yield "-", each


def watch_entries(rules: Sequence[WatchSettings], instructions: int, hop_limit: int) -> Iterator[Entry]:
    """Entries of a watch list. Raises RefusedError for rules that the program does not support."""
    for number, rule in enumerate(rules):
        action = _ACTIONS.get(rule.mode)
        if action is None or rule.sample_by != "packet":
            raise RefusedError(
                f"found mode {rule.mode!r} and sample_by {rule.sample_by!r} in a watch list, expected "
                "md or xd, and packet: the program supports no others"
            )
        params = {"instructions": instructions, "sample": _share(rule.sample)}
        if action == "start":
            params["hop_limit"] = hop_limit
        versions = {version for text in (rule.source, rule.destination) for version in _versions(text)}
        for version in versions or WATCH.keys():
            match = _ternaries(rule.source, rule.destination)
            if (protocol := _PROTOCOLS[rule.protocol]) is not None:
                match[_PROTOCOL[version]] = (protocol, 0xFF)
            if rule.ports != (0, 65535):
                match["destination_port"] = rule.ports
            yield entry(WATCH[version], match, action, params, _FIRST_PRIORITY - number)


def watch_of(entries: Iterable[Entry]) -> tuple[WatchSettings, ...]:
    """The watch list that entries express; entries of other controllers that no rule can express are left
    out.
    """
    found: dict[int, dict[str, Any]] = {}
    known = get_args(WatchSettings.model_fields["mode"].annotation)
    modes = {action: mode for mode, action in _ACTIONS.items() if mode in known}
    protocols = {number: name for name, number in _PROTOCOLS.items()}
    for each in entries:
        match = dict(each.match)
        version = next(version for version, table in WATCH.items() if table == each.table)
        number = match.get(_PROTOCOL[version], (None, 0xFF))
        if each.action not in modes or "source_port" in match or number[0] not in protocols:
            continue
        masks = [match[name][1] for name in ("source", "destination") if name in match]
        if not all(_is_netmask(version, mask) for mask in masks):
            continue
        ports = match.get("destination_port", (0, 65535))
        rule = {
            "source": _prefix(version, match.get("source")),
            "destination": _prefix(version, match.get("destination")),
            "port": None if ports == (0, 65535) else ports[0],
            "last_port": None if ports == (0, 65535) else ports[1],
            "protocol": protocols[number[0]],
            "mode": modes[each.action],
            "sample": _sample(dict(each.params)["sample"]),
        }
        other = found.setdefault(each.priority, rule)
        if other is not rule:  # a rule for both versions has two entries
            other["source"] = other["destination"] = "any"
    return tuple(WatchSettings.model_validate(found[priority]) for priority in sorted(found, reverse=True))


def track_entries(flows: Iterable[TrackedFlowSettings], have: Iterable[Entry]) -> Iterator[Entry]:
    """Entries of tracked flows; a flow that has a row of counters keeps it."""
    rows = {each.match: dict(each.params)["index"] for each in have if each.action == "track"}
    wanted = []
    for flow in flows:
        version = ipaddress.ip_address(flow.src).version
        match = tuple(sorted(_ternaries(flow.src, flow.dst).items()))
        wanted.append((TRACK[version], match, flow.every))
    kept = {rows[match] for _, match, _ in wanted if match in rows}
    free = iter(sorted(set(range(_ROWS)) - kept))
    for table, match, every in wanted:
        index = rows[match] if match in rows else next(free)
        yield Entry(table, match, "track", (("every", every), ("index", index)), _TRACK_PRIORITY)


def tracked_of(entries: Iterable[Entry]) -> tuple[TrackedFlowSettings, ...]:
    """The tracked flows that entries express; inverse of `track_entries`."""
    found = []
    for each in entries:
        match = dict(each.match)
        if each.action == "track" and match.keys() == {"source", "destination"}:
            version = 4 if each.table == TRACK[4] else 6
            if any(mask != (1 << _BITS[version]) - 1 for _, mask in match.values()):
                continue
            kind = ipaddress.IPv4Address if version == 4 else ipaddress.IPv6Address
            source, destination = (str(kind(match[name][0])) for name in ("source", "destination"))
            every = dict(each.params)["every"]
            found.append(TrackedFlowSettings(src=source, dst=destination, every=every))
    return tuple(found)


def port_params(labelling: LabellingSettings) -> dict[str, int]:
    """Parameters of a port's entry. Raises RefusedError for settings that the program does not support."""
    interval = round(labelling.interval * 1e6)
    if not 0 < interval <= _LONGEST_US:
        raise RefusedError(f"found an interval of {labelling.interval:g} s, expected 1 us to 4294 s")
    chance = Chance.NEVER
    if labelling.algorithm == "base-b":
        chance = Chance[labelling.chance.upper().replace("-", "_")]
        if labelling.chance_table:
            chance = Chance.TABLE
    rest = round(labelling.interval * labelling.rest * 1e6)
    return {"interval": interval, "rest": rest, "chance": int(chance)}


def labelling_of(params: dict[str, int], written: LabellingSettings) -> LabellingSettings:
    """The label function of a port; values that its entry lacks are taken from `written`."""
    chance = params["chance"]
    given: dict[str, Any] = {"algorithm": "base-a" if chance == Chance.NEVER else "base-b"}
    if Chance.F1 <= chance <= Chance.F3:
        given["chance"] = Chance(chance).name.lower().replace("_", "-")
    given["chance_table"] = UNKNOWN_TABLE if chance not in _KNOWN else ()
    given["interval"] = params["interval"] / 1e6
    given["rest"] = params["rest"] / params["interval"] if params["interval"] else 0.0
    return written.model_copy(update=given)


def chance_entries(labelling: LabellingSettings) -> Iterator[Entry]:
    """Entries of the table of probabilities, if the label function has one."""
    table, interval = labelling.chance_table, round(labelling.interval * 1e6)
    for number, row in enumerate(table):
        last_count = 255 if number == len(table) - 1 else number
        for column, chance in enumerate(row):
            first, last = interval * column // len(row), interval * (column + 1) // len(row) - 1
            if column == len(row) - 1:
                last = _LONGEST_US
            if chance and first <= last:
                match: dict[str, Any] = {"count": (number, last_count), "scaled": (first, last)}
                if match["scaled"] == (0, _LONGEST_US):
                    del match["scaled"]
                if match["count"] == (0, 255):
                    del match["count"]
                yield entry(CHANCES, match, "label_share", {"share": min(ALL, round(chance * 2**32))}, 1)


def _share(sample: int) -> int:
    return ALL if sample == 1 else max(1, round(2**32 / sample))


def _sample(share: int) -> int:
    return 1 if share == ALL else min(1 << 31, max(1, round(2**32 / max(1, share))))


def _versions(text: str) -> tuple[int, ...]:
    return () if text == "any" else (ipaddress.ip_network(text).version,)


def _ternaries(source: str, destination: str) -> dict[str, Any]:
    """Match keys for both addresses; a prefix of length 0 has no key."""
    match: dict[str, Any] = {}
    for name, text in (("source", source), ("destination", destination)):
        network = None if text == "any" else ipaddress.ip_network(text)
        if network is not None and network.prefixlen:
            match[name] = (int(network.network_address), int(network.netmask))
    return match


def _is_netmask(version: int, mask: int) -> bool:
    """Whether a mask consists of ones followed by zeros."""
    rest = mask ^ ((1 << _BITS[version]) - 1)
    return not rest & (rest + 1)


def _prefix(version: int, ternary: tuple[int, int] | None) -> str:
    """The prefix that a match key expresses; without a key, the prefix of length 0 of this IP version."""
    if ternary is None:
        return "0.0.0.0/0" if version == 4 else "::/0"
    address, mask = ternary
    kind = ipaddress.IPv4Address if version == 4 else ipaddress.IPv6Address
    return f"{kind(address)}/{mask.bit_count()}"
