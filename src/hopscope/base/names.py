"""Names of nodes and ports, from a TOML or CSV file of the user, and from devices.

TOML::

    [nodes]
    7 = "agg-1-0"
    "192.0.2.7" = "edge-7"

    [ports.7]
    2 = "to core-3"

A node may be given as an IPv4 address; its id is the address as a number, as for sFlow agents and IPFIX
exporters.

CSV; a row with an empty port names the node itself::

    node_id,port,name
    7,,agg-1-0
    7,2,to core-3
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from pathlib import Path

from .errors import HopscopeError
from .toml import TomlError, read_toml, whole_number

MAX_NODE = 0xFFFF_FFFF
MAX_PORT = (1 << 30) - 1
"""Ports may be ifIndexes, some of which have 30 bits."""
MAX_NAME = 64
"""Longest name that is taken from a device, in characters: the limit of an interface's ifAlias (RFC 2863)."""
DISCOVERED = "discovered.toml"
"""File in the data folder with the names that were read from devices."""


class NamesError(HopscopeError):
    """A file of names cannot be read; the message states file, place and problem."""


@dataclass(frozen=True, slots=True)
class Names:
    """Names of nodes and ports. Without a file, labels are numbers."""

    nodes: dict[int, str] = field(default_factory=dict)
    """Name by node id."""
    ports: dict[tuple[int, int], str] = field(default_factory=dict)
    """Name by (node id, port)."""

    @classmethod
    def load(cls, path: Path | str | None, folder: Path | None = None) -> Names:
        """Read `path` (by its suffix: `.csv`, else TOML); None: no names. Raises NamesError.

        `folder`: a data folder with names that were read from devices, which are used for nodes and ports
        that `path` does not name. If several nodes, or several ports of a node, have the same name, their id
        is added, as in `leaf (7)`, because people and links select them by name. The same applies to a node
        whose name is a number, which would be taken for the id of another one.
        """
        names = cls() if path is None else cls._read(path)
        nodes, ports = names.nodes, names.ports
        if folder is not None:
            with suppress(NamesError):  # there is no file, or it is damaged; the devices will be asked again
                found = cls._read(folder / DISCOVERED)
                nodes, ports = found.nodes | nodes, found.ports | ports
        of_nodes = Counter(nodes.values())
        of_ports = Counter((node, name) for (node, _), name in ports.items())
        return cls(
            {
                id: f"{name} ({id})" if of_nodes[name] > 1 or (name.isdecimal() and name != str(id)) else name
                for id, name in nodes.items()
            },
            {
                (node, port): name if of_ports[node, name] == 1 else f"{name} ({port})"
                for (node, port), name in ports.items()
            },
        )

    @classmethod
    def _read(cls, path: Path | str) -> Names:
        path = Path(path)
        names = cls()
        try:
            rows = _csv_rows(path) if path.suffix.lower() == ".csv" else _toml_rows(path)
            for place, node, port, name in rows:
                names._add(f"{path}: {place}", node, port, name)
        except OSError as error:
            raise NamesError(f"{path} (names of switches): {error.strerror}") from error
        except UnicodeDecodeError:
            raise NamesError(
                f"{path}: found bytes that are not text, expected names as TOML or CSV"
            ) from None
        except TomlError as error:
            raise NamesError(f"{path}:{error}") from error
        except csv.Error as error:
            raise NamesError(f"{path}: {error}") from error
        return names

    def _add(self, place: str, node: object, port: object, name: object) -> None:
        node_id = _node_id(node)
        if node_id is None:
            raise NamesError(f"{place}: found node id {node!r}, expected a number from 0 to {MAX_NODE}")
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise NamesError(f"{place}: found name {name!r}, expected printable text")
        if port == "":
            if self.nodes.setdefault(node_id, name.strip()) != name.strip():
                raise NamesError(f"{place}: node {node_id} is named twice")
            return
        number = whole_number(port, MAX_PORT)
        if number is None:
            raise NamesError(f"{place}: found port {port!r}, expected a number from 0 to {MAX_PORT}")
        if self.ports.setdefault((node_id, number), name.strip()) != name.strip():
            raise NamesError(f"{place}: port {number} of node {node_id} is named twice")

    def as_toml(self) -> str:
        """The content of a TOML file with these names."""
        lines = ["[nodes]", *(f'"{node}" = {_quoted(name)}' for node, name in sorted(self.nodes.items()))]
        above = None
        for (node, port), name in sorted(self.ports.items()):
            if node != above:
                lines += ["", f'[ports."{node}"]']
                above = node
            lines.append(f'"{port}" = {_quoted(name)}')
        return "\n".join(lines) + "\n"

    def __len__(self) -> int:
        return len(self.nodes) + len(self.ports)

    def node(self, node_id: int) -> str | None:
        """Name of a node, or None."""
        return self.nodes.get(int(node_id))

    def port(self, node_id: int, port: int) -> str | None:
        """Name of a port, or None."""
        return self.ports.get((int(node_id), int(port)))

    def node_label(self, node_id: int) -> str:
        """Name of a node, or its number."""
        return self.nodes.get(int(node_id)) or str(int(node_id))

    def port_label(self, node_id: int, port: int) -> str:
        """Name of a port, or its number."""
        return self.ports.get((int(node_id), int(port))) or str(int(port))

    def path_label(self, node_ids: object) -> str:
        """The labels of the nodes of a path, in order, such as `leaf-1 → spine-2 → leaf-4`."""
        return " → ".join(self.node_label(node) for node in node_ids)  # type: ignore[attr-defined]

    def find_node(self, text: str) -> int | None:
        """Id of the node with this name or number (decimal, or 0x…); None if the text is neither."""
        for node_id, name in self.nodes.items():
            if name == text:
                return node_id
        return _node_id(text)


def clean_name(text: bytes, limit: int = MAX_NAME) -> str:
    """A name that a device sent, as a line of at most `limit` printable characters; may be empty."""
    found = text[: 8 * limit].decode("utf-8", "replace")
    printable = "".join(character if character.isprintable() else " " for character in found)
    return " ".join(printable.split())[:limit].strip()


def _quoted(name: str) -> str:
    """A printable name as a basic string of TOML, in which quotes and backslashes are escaped as in JSON."""
    return json.dumps(name, ensure_ascii=False)


def _node_id(value: object) -> int | None:
    """A node id from its number, or from an IPv4 address."""
    number = whole_number(value, MAX_NODE)
    if number is None and isinstance(value, str):
        try:
            number = int(IPv4Address(value))
        except ValueError:
            return None
    return number


def _toml_rows(path: Path) -> Iterator[tuple[str, object, object, object]]:
    content = read_toml(path)
    for table in content:
        if table not in ("nodes", "ports"):
            raise NamesError(f"{path}: found table {table!r}, expected `nodes` or `ports`")
        if not isinstance(content[table], dict):
            raise NamesError(f"{path}: found {content[table]!r} in {table}, expected a table of names")
    for node, name in content.get("nodes", {}).items():
        yield f"nodes.{node}", node, "", name
    for node, ports in content.get("ports", {}).items():
        if not isinstance(ports, dict):
            raise NamesError(f"{path}: ports.{node}: found {ports!r}, expected a table of port names")
        for port, name in ports.items():
            yield f"ports.{node}.{port}", node, port or None, name


def _csv_rows(path: Path) -> Iterator[tuple[str, object, object, object]]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file, strict=True)
        header = [column.strip() for column in next(reader, [])]
        if header != ["node_id", "port", "name"]:
            raise NamesError(f"{path}: line 1: found {','.join(header)!r}, expected 'node_id,port,name'")
        for row in reader:
            if not row:
                continue
            if len(row) != 3:
                raise NamesError(f"{path}: line {reader.line_num}: found {len(row)} columns, expected 3")
            yield f"line {reader.line_num}", row[0], row[1].strip(), row[2]
