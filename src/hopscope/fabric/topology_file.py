"""Files with an own topology, in TOML.

::

    rate = "10G"                         # of all links
    switches = ["a", "b", "c", "d"]      # ids 1 to 4; with ids: { a = 11, b = 12 }
    links = [
      "a - b",                           # ports are numbered in the order of the file
      "b:7 - c:8",
      { between = "c - d", rate = "40G", delay = "50us" },
    ]
    hosts = { a = 2, d = ["web-1", { name = "db-1", address = "10.0.9.1", rate = "25G", port = 3 }] }
"""

from __future__ import annotations

import difflib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address
from pathlib import Path
from typing import Any

from ..base.errors import HopscopeError
from ..base.quantities import bit_rate, seconds
from ..base.toml import TomlError, read_toml
from .graph import Cable, Graph, Host
from .ports import FabricError, Switch
from .records import PS

KEYS = ("rate", "host_rate", "delay", "switches", "links", "hosts")
LINK_KEYS, HOST_KEYS = ("between", "rate", "delay"), ("name", "address", "rate", "port")
MAX_NODE, MAX_PORT = 0xFFFF_FFFE, 0xFFFF
MAX_DELAY_S = 1.0
MIN_RATE = 1000
"""bit/s; below it, times in ps may exceed 64 bits."""
QUEUES = 256
"""Queue ids of a switch; a port's is the last 8 bits of its number."""
FIRST_ADDRESS, ADDRESSES = 10 << 24, 253
"""Hosts of switch n without an address get 10.0.n.2, 10.0.n.3 and so on, up to this many."""
Place = tuple[int, int]
"""Node and port."""
_NAME = re.compile(r"[\w.-]{1,64}", re.ASCII)
_PORT = re.compile("[0-9]{1,5}")
_END = re.compile(r"\s*([\w.-]+)\s*(?::\s*(\S+?)\s*)?")


class _FileError(Exception):
    """An error at a key of the file, and the text there that it is about."""

    def __init__(self, key: str, why: str, about: str = "") -> None:
        super().__init__(f"{key}: {why}")
        self.key, self.about = key, about


@dataclass(slots=True)
class _Socket:
    """A port of a switch (row): its number, 0 until it is known, and what is connected to it."""

    switch: int
    number: int
    key: str
    what: str


def read_topology(file: Path, rate: int) -> Graph:
    """The topology of a file; `rate`: of its links, bit/s, if the file states none. Raises FabricError."""
    try:
        content = read_toml(file)
        return _Reader(str(file), rate).read(content)
    except OSError as error:
        raise FabricError(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise FabricError(f"{file}: found bytes that are not UTF-8, expected a topology in TOML") from None
    except TomlError as error:
        raise FabricError(f"{file}:{error}") from None
    except _FileError as problem:
        line = _line_of(file.read_text(encoding="utf-8-sig"), problem)
        raise FabricError(f"{file}:{line} {problem}") from None


def _line_of(text: str, problem: _FileError) -> str:
    """`LINE:` of the text that an error is about, at or below its key; empty if the key is missing."""
    lines = [line.partition("#")[0] for line in text.splitlines()]
    key = re.compile(rf"[\s\[]*{re.escape(re.split('[.:]', problem.key)[0])}\b")
    begin = next((number for number, line in enumerate(lines) if key.match(line)), None)
    if begin is None:
        return ""
    found = (
        number for number in range(begin, len(lines)) if problem.about and problem.about in lines[number]
    )
    return f"{next(found, begin) + 1}:"


class _Reader:
    """Reads the content of one file."""

    def __init__(self, name: str, rate: int) -> None:
        self._name, self._rate = name, rate
        self._switches: list[Switch] = []
        self._rows: dict[str, int] = {}
        self._sockets: list[_Socket] = []

    def read(self, content: Mapping[str, Any]) -> Graph:
        """The topology. Raises _FileError and FabricError."""
        _check_keys(content, KEYS, "")
        rate = _rate(content, "rate", self._rate)
        host_rate = _rate(content, "host_rate", rate)
        delay = _delay(content, "delay", -1)
        self._read_switches(content.get("switches"))
        cables = list(self._links(content.get("links", []), rate, delay))
        hosts = list(self._hosts(content.get("hosts"), host_rate))
        self._number_ports()
        return Graph(
            self._name,
            self._switches,
            [
                Cable((one.switch, other.switch), (one.number, other.number), bits, ns)
                for one, other, bits, ns in cables
            ],
            [Host(name, address, at.switch, at.number, bits) for name, address, at, bits in hosts],
        )

    def _read_switches(self, given: object) -> None:
        if isinstance(given, list):
            names = [str(name) for name in given]
            if twice := next((name for name, count in Counter(names).items() if count > 1), ""):
                raise _FileError(
                    "switches", f"found {twice} twice, expected a name of its own for each switch", twice
                )
            given = {name: number for number, name in enumerate(names, 1)}
        if not isinstance(given, dict) or not given:
            found = "none" if not given else repr(given)
            raise _FileError(
                "switches", f'found {found}, expected names, such as ["a", "b"], or ids, {{ a = 11, b = 12 }}'
            )
        named: dict[int, str] = {}
        for name, node in given.items():
            _check_name("switches", name)
            if not _is_number(node, 1, MAX_NODE):
                raise _FileError("switches", f"found id {node!r} of {name}, expected 1 to {MAX_NODE}", name)
            if named.setdefault(node, name) != name:
                raise _FileError(
                    "switches", f"found id {node} twice, expected an id of its own for {name}", name
                )
            self._rows[name] = len(self._switches)
            self._switches.append(Switch(node, name))
        for name in self._rows:
            if name.isdecimal() and named.get(int(name), name) != name:
                raise _FileError("switches", f"{name} is the name of a switch and the id of another", name)

    def _row(self, key: str, name: str, about: str) -> int:
        """Row of a switch. Raises _FileError."""
        if name in self._rows:
            return self._rows[name]
        close = difflib.get_close_matches(name, self._rows, 1)
        hint = f"did you mean {close[0]}?" if close else f"add it to `switches`, or use {_some(self._rows)}"
        raise _FileError(key, f"{name} is no switch of the file: {hint}", about)

    def _links(self, given: object, rate: int, delay: int) -> Iterator[tuple[_Socket, _Socket, int, int]]:
        if not isinstance(given, list):
            raise _FileError("links", f'found {given!r}, expected a list, such as ["a - b", "b:7 - c:8"]')
        for each in given:
            table = each if isinstance(each, dict) else {"between": each}
            text = table.get("between")
            _check_keys(
                table, LINK_KEYS, f"links: {text}" if text else "links", str(text or next(iter(table), ""))
            )
            ends = [_END.fullmatch(end) for end in text.split(" - ")] if isinstance(text, str) else []
            if len(ends) != 2 or not ends[0] or not ends[1]:
                form = '"SWITCH - SWITCH" or "SWITCH:PORT - SWITCH:PORT"'
                raise _FileError("links", f"found {text or each!r}, expected {form}", str(text))
            assert isinstance(text, str)
            key = f"links: {text}"
            rows = [self._row(key, end[1], text) for end in ends if end]
            if rows[0] == rows[1]:
                raise _FileError(key, "expected two different switches", text)
            one, other = (
                self._socket(row, end[2], key, text) for row, end in zip(rows, ends, strict=True) if end
            )
            yield one, other, _rate(table, "rate", rate, key, text), _delay(table, "delay", delay, key, text)

    def _hosts(self, given: object, rate: int) -> Iterator[tuple[str, int, _Socket, int]]:
        if _is_number(given, 0, QUEUES):
            given = dict.fromkeys(self._rows, given)
        if not isinstance(given, dict) or not any(given.values()):
            found, name = repr(given) if given else "none", self._switches[0].name
            raise _FileError(
                "hosts",
                f"found {found}, expected 2 for two at every switch, or for one switch {{ {name} = 2 }}",
            )
        names, addresses = dict[str, str](), dict[int, str]()
        for at, hosts in given.items():
            key = f"hosts.{at}"
            row = self._row(key, at, at)
            if _is_number(hosts, 0, ADDRESSES):
                hosts = [f"host-{at}-{number}" for number in range(1, hosts + 1)]
            if not isinstance(hosts, list) or len(hosts) > ADDRESSES:
                raise _FileError(
                    key, f"found {hosts!r}, expected a number up to {ADDRESSES}, or a list of names", at
                )
            for number, each in enumerate(hosts):
                table = each if isinstance(each, dict) else {"name": each}
                name = table.get("name", f"host-{at}-{number + 1}")
                _check_keys(table, HOST_KEYS, key, str(name))
                _check_name(key, name)
                if name in names:
                    raise _FileError(key, f"{name} is also the name of a host at {names[name]}", name)
                names[name] = at
                address = _address(table.get("address"), key, FIRST_ADDRESS + ((row + 1) << 8) + number + 2)
                if address in addresses:
                    raise _FileError(
                        key, f"{name} has the address of {addresses[address]}, {IPv4Address(address)}", name
                    )
                addresses[address] = name
                port = table.get("port", "")
                yield name, address, self._socket(row, port, key, name), _rate(table, "rate", rate, key, name)

    def _socket(self, row: int, number: object, key: str, what: str) -> _Socket:
        text = "" if number is None else str(number)
        if text and (not _PORT.fullmatch(text) or not 1 <= int(text) <= MAX_PORT):
            raise _FileError(key, f"found port {text}, expected its number in INT, 1 to {MAX_PORT}", what)
        self._sockets.append(_Socket(row, int(text or 0), key, what))
        return self._sockets[-1]

    def _number_ports(self) -> None:
        """Number the ports: as the file says, and then in its order with the lowest free number."""
        used: dict[tuple[int, int], _Socket] = {}
        for socket in self._sockets:
            if not socket.number:
                continue
            other = used.setdefault((socket.switch, socket.number % QUEUES), socket)
            name = self._switches[socket.switch].name
            if other is not socket:
                why = f"port {socket.number} of {name} is in use by {other.what}"
                if other.number != socket.number:
                    numbers = f"{other.number} and {socket.number}"
                    why = f"ports {numbers} of {name} share a queue id, the last 8 bits of a number"
                raise _FileError(socket.key, f"{why}: choose another number", socket.what)
        for socket in self._sockets:
            if socket.number:
                continue
            free = (n for n in range(1, QUEUES + 1) if (socket.switch, n % QUEUES) not in used)
            socket.number = next(free, 0)
            if not socket.number:
                name = self._switches[socket.switch].name
                raise _FileError(
                    socket.key,
                    f"{name} has more than {QUEUES} ports, the most that have queue ids",
                    socket.what,
                )
            used[socket.switch, socket.number % QUEUES] = socket


def _check_keys(table: Mapping[str, Any], known: tuple[str, ...], key: str, about: str = "") -> None:
    for name in table:
        if name not in known:
            close = difflib.get_close_matches(name, known, 1, 0.5)
            hint = f"did you mean {close[0]}?" if close else f"expected {', '.join(known)}"
            raise _FileError(key or name, f"no such key{f' as {name}' if key else ''}; {hint}", about or name)


def _check_name(key: str, name: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _FileError(
            key, f"found the name {name!r}, expected up to 64 letters, digits, '.', '-' and '_'", str(name)
        )


def _is_number(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _rate(table: Mapping[str, Any], name: str, default: int, key: str = "", about: str = "") -> int:
    """A rate in bit/s. Raises _FileError."""
    if name not in table:
        return default
    rate = round(_quantity(table, name, bit_rate, key, about))
    if rate < MIN_RATE or 8 * PS % rate:
        raise _FileError(
            key or name,
            f"{_found(table, name, key)}, expected at least 1k, at which a byte takes a whole number of ps, "
            "such as 1G, 2.5G, 10G, 25G, 40G, 100G or 400G",
            about,
        )
    return rate


def _delay(table: Mapping[str, Any], name: str, default: int, key: str = "", about: str = "") -> int:
    """A delay in ns. Raises _FileError."""
    if name not in table:
        return default
    delay = _quantity(table, name, seconds, key, about)
    if delay > MAX_DELAY_S:
        raise _FileError(key or name, f"{_found(table, name, key)}, expected at most {MAX_DELAY_S:g}s", about)
    return round(delay * 1e9)


def _quantity(
    table: Mapping[str, Any], name: str, parse: Callable[[str, str], float], key: str, about: str
) -> float:
    """A number with a unit. Raises _FileError."""
    try:
        return parse(name, str(table[name]))
    except HopscopeError as error:
        expected = str(error).rpartition(": ")[2]
        raise _FileError(key or name, f"{_found(table, name, key)}, {expected}", about) from None


def _found(table: Mapping[str, Any], name: str, key: str) -> str:
    """The start of an error; it names what is found if `key` does not."""
    return f"found {name} {table[name]}" if key else f"found {table[name]}"


def _address(given: object, key: str, default: int) -> int:
    if given is None:
        return default
    try:
        return int(IPv4Address(str(given)))
    except AddressValueError:
        raise _FileError(
            key, f"found address {given!r}, expected IPv4, such as 10.0.9.1", str(given)
        ) from None


def _some(names: Iterable[str]) -> str:
    first, *others = names
    return (
        first if not others else f"{first}, {others[0]} …" if len(others) > 1 else f"{first} or {others[0]}"
    )


def topology_toml(names: Mapping[int, str], links: Mapping[Place, tuple[int, int | None]]) -> str:
    """A file with the switches `names` (by id) and the links that egress ports lead to, each with one host.

    `links` has the next node of each (node, port), and its port or None. Between two switches, ports whose
    other end is unknown are linked in order of their numbers. Left out is what a file cannot have: the number
    0 of a port, and links from a switch to itself.
    """
    cables: dict[frozenset[Place] | Place, str] = {}
    called = _usable(names)
    towards = defaultdict[tuple[int, int], list[int]](list)  # ports of a node that lead to another, ascending
    for (node, port), (peer, _) in sorted(links.items()):
        towards[node, peer].append(port)
    for (node, port), (peer, number) in sorted(links.items()):
        if node == peer:
            continue
        at, back = towards[node, peer].index(port), towards[peer, node]
        if number is None and at < len(back):
            number = back[at]
        key = frozenset(((node, port), (peer, number))) if number is not None else (node, port)
        ends = (f"{called[end]}:{own}" if own else called[end] for end, own in ((node, port), (peer, number)))
        cables.setdefault(key, " - ".join(ends))
    lines = ["[switches]", *(f'"{called[node]}" = {node}' for node in sorted(called))]
    listed = "".join(f'  "{cable}",\n' for cable in cables.values())
    return f"hosts = 1  # at every switch\nlinks = [\n{listed}]\n\n" + "\n".join(lines) + "\n"


def _usable(names: Mapping[int, str]) -> dict[int, str]:
    """Names that a file can have, each once."""
    found = {node: re.sub(r"[^A-Za-z0-9_.-]+", "-", name)[:64] for node, name in names.items()}
    counts = Counter(found.values())
    return {
        node: f"node-{node}" if counts[name] > 1 or re.fullmatch(r"(node-)?\d*", name) else name
        for node, name in found.items()
    }
