"""The network's links, from a user's file: the next node of each egress port.

TOML::

[links.7]
    2 = 3
    48 = 9

CSV::

node_id,egress_port,next_node_id
    7,2,3
    7,48,9

Each direction of a cable has its own row. A port without a row leads to a host.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..base.errors import HopscopeError
from ..base.toml import TomlError, read_toml, whole_number

Links = dict[tuple[int, int], int]
"""Next node by (node, egress port)."""
Topology = tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32], npt.NDArray[np.uint64]]
_HEADER = ["node_id", "egress_port", "next_node_id"]


class LinksError(HopscopeError):
    """An invalid file of links; the message has file, place and problem."""


def read_links(path: Path | None) -> Links:
    """Read links from a file (`.csv`, otherwise TOML); None: no links. Raises LinksError."""
    if path is None:
        return {}
    links: Links = {}
    try:
        rows = _csv_rows(path) if path.suffix.lower() == ".csv" else _toml_rows(path)
        for where, *row in rows:
            numbers = []
            for value, what, highest in zip(row, _HEADER, (0xFFFFFFFE, 0xFFFF, 0xFFFFFFFE), strict=True):
                number = whole_number(value, highest)
                if number is None:
                    raise LinksError(
                        f"{path}: {where}: found {what} {value!r}, expected a number from 0 to {highest}"
                    )
                numbers.append(number)
            node, port, following = numbers
            if links.setdefault((node, port), following) != following:
                raise LinksError(f"{path}: {where}: port {port} of node {node} leads to two nodes")
    except OSError as error:
        raise LinksError(f"{path} (links between switches): {error.strerror}") from error
    except UnicodeDecodeError:
        raise LinksError(f"{path}: found bytes that are not text, expected links as TOML or CSV") from None
    except TomlError as error:
        raise LinksError(f"{path}:{error}") from error
    except csv.Error as error:
        raise LinksError(f"{path}: {error}") from error
    return links


def topology(links: Links) -> Topology:
    """Links in the kernels' form: sorted keys node << 16 | egress port, the next node of each, and sorted
    pairs node << 32 | next node.
    """
    keys = np.array(sorted(node << 16 | port for node, port in links), np.uint64)
    nexts = np.array([links[int(key) >> 16, int(key) & 0xFFFF] for key in keys], np.uint32)
    pairs = np.array(sorted({node << 32 | after for (node, _), after in links.items()}), np.uint64)
    return keys, nexts, pairs


def _toml_rows(path: Path) -> Iterator[tuple[str, object, object, object]]:
    content = read_toml(path)
    for table, nodes in content.items():
        if table != "links" or not isinstance(nodes, dict):
            raise LinksError(f"{path}: found {table!r}, expected tables `links.NODE`")
        for node, ports in nodes.items():
            if not isinstance(ports, dict):
                raise LinksError(f"{path}: links.{node}: found {ports!r}, expected PORT = NEXT")
            for port, following in ports.items():
                yield f"links.{node}.{port}", node, port, following


def _csv_rows(path: Path) -> Iterator[tuple[str, object, object, object]]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file, strict=True)
        header = [column.strip() for column in next(reader, [])]
        if header != _HEADER:
            raise LinksError(f"{path}: line 1: found {','.join(header)!r}, expected {','.join(_HEADER)!r}")
        for row in reader:
            if not row:
                continue
            if len(row) != 3:
                raise LinksError(f"{path}: line {reader.line_num}: found {len(row)} columns, expected 3")
            yield f"line {reader.line_num}", row[0], row[1], row[2]
