"""The part of the network that is shown: all switches, pods, or the switches of one
pod; as columns for JSON.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ...base.names import Names
from ...detect.places import UNKNOWN, nodes_of, parts_of
from ...wire.records import Records
from ..events import node_object, port_object
from .live import Snapshot
from .places import METRICS, NONE, SOURCES, FabricMetric, Ints, united
from .shape import Shape, shape_of

Level = Literal["switch", "pod"]
MAX_SWITCHES = 400
"""With more switches, `auto` shows pods."""
MAX_LINKS = 40_000
"""Largest number of links in an answer: those with the highest values."""
_PORT_BITS = 31
"""Bits of a port in a key: ports have 30 bits, and are stored plus 1, since 0 stands for several ports."""


@dataclass(frozen=True, slots=True)
class Network:
    """A snapshot with its shape."""

    snapshot: Snapshot
    shape: Shape
    start: Ints
    """Row in `shape.nodes` of the switch of each place."""
    end: Ints
    """Row of the switch that each place leads to; NONE: to no switch."""


def network_of(snapshot: Snapshot, names: Names, before: Network | None = None) -> Network:
    """The network of a snapshot. The shape of `before` is reused if the links are the same."""
    rows = snapshot.rows
    of_rows = nodes_of(rows["place"])
    nodes = united([of_rows, rows["next"][rows["next"] != NONE]])
    if (
        before is not None
        and np.array_equal(before.snapshot.rows["place"], rows["place"])
        and np.array_equal(before.snapshot.rows["next"], rows["next"])
    ):
        return Network(snapshot, before.shape, before.start, before.end)
    leads = rows["next"] != NONE
    steps = np.stack([of_rows[leads], rows["next"][leads]], axis=1)
    shape = shape_of(nodes, steps, snapshot.edge, names)
    return Network(snapshot, shape, shape.row(of_rows), shape.row(rows["next"]))


@dataclass(frozen=True, slots=True)
class Shown:
    """The nodes of a view, and the node that each switch belongs to."""

    level: Level
    pod: str | None
    nodes: list[dict[str, Any]]
    of: Ints
    """Index in `nodes` of each switch of the shape; NONE: not shown."""
    single: npt.NDArray[np.bool_]
    """Whether a node is one switch."""
    cells: list[Ints]
    """Switches (rows of the shape) in each node that has several, the lowest layer first."""


def shown(network: Network, names: Names, level: Level | None, pod: str | None) -> Shown:
    """Choose the nodes to show. `level` None: by the number of switches. ValueError: there is no such pod."""
    shape = network.shape
    if pod is not None and pod not in shape.pods:
        listed = ", ".join(shape.pods[:8]) or "none: this network has no pods"
        raise ValueError(
            f"pod: expected one of {listed}{' …' if len(shape.pods) > 8 else ''}, found {pod[:60]!r}"
        )
    if level is None:
        level = "pod" if len(shape.nodes) > MAX_SWITCHES else "switch"
    if not shape.pods or pod is not None:
        level = "switch"
    of = np.full(len(shape.nodes), NONE)
    groups: list[tuple[str, str, Ints]] = []
    if level == "pod":
        groups += [("pod", name, np.flatnonzero(shape.pod == i)) for i, name in enumerate(shape.pods)]
    if level == "pod" or pod is not None:
        groups += [("plane", name, np.flatnonzero(shape.plane == i)) for i, name in enumerate(shape.planes)]
    single = shape.pod == shape.pods.index(pod) if pod is not None else np.full(len(of), level == "switch")
    nodes: list[dict[str, Any]] = []
    top = len(shape.layers) - 1
    for row in np.flatnonzero(single).tolist():
        of[row] = len(nodes)
        node, in_pod = int(shape.nodes[row]), int(shape.pod[row])
        nodes.append(
            {
                "kind": "switch",
                "id": node,
                "name": names.node_label(node),
                "layer": int(shape.layer[row]),
                "pod": None if in_pod == NONE else shape.pods[in_pod],
            }
        )
    is_switch = np.arange(len(nodes) + len(groups)) < len(nodes)
    cells = []
    for kind, name, members in groups:
        members = members[np.lexsort((shape.nodes[members], shape.layer[members]))]
        of[members] = len(nodes)
        cells.append(members)
        nodes.append(
            {"kind": kind, "id": None, "name": name, "layer": top if kind == "plane" else 0, "pod": None}
        )
    return Shown(level, pod, nodes, of, is_switch, cells)


def hot_places(rows: Records, metric: FabricMetric, limit: float | None) -> npt.NDArray[np.bool_]:
    """bool [places]: which places have an alarm, are above the limit, or have drops."""
    number = METRICS.index(metric)
    hot: npt.NDArray[np.bool_] = rows["alarm"][:, number].copy()
    value = rows["highest"][:, number]
    if metric == "drops":
        hot |= value > 0
    elif limit is not None:
        hot |= value > limit
    return hot


def view_object(
    network: Network, view: Shown, names: Names, metric: FabricMetric, limit: float | None, known: str | None
) -> dict[str, Any]:
    """The view as JSON: `structure`, unless `known` is its version, and `values` in the order of the
    structure.
    """
    rows, size = network.snapshot.rows, len(view.nodes)
    value = rows["highest"][:, METRICS.index(metric)]
    hot = hot_places(rows, metric, limit)
    above = value > (0 if metric == "drops" else np.inf if limit is None else limit)
    start = _shown_at(view, network.start)
    links = _links(network, view, start, value)
    inner, link, count = links.places, links.of_places, len(links.start)
    ours, with_port = start != NONE, parts_of(rows["place"])[1] != UNKNOWN
    outer = ours & with_port & (network.end == NONE)
    version = _version(network, view, links)
    flows = np.bincount(link, weights=rows["flows"][inner], minlength=count)
    return {
        "version": version,
        "structure": None if version == known else _structure(network, view, names, links, start[outer]),
        "values": {
            "nodes": _worst(start[ours], value[ours], size),
            "nodes_hot": np.bincount(start[ours & hot], minlength=size).tolist(),
            "hosts": _worst(start[outer], value[outer], size),
            "hosts_hot": np.bincount(start[outer & hot], minlength=size).tolist(),
            "links": _worst(link, value[inner], count),
            "links_hot": np.bincount(link[hot[inner]], minlength=count).tolist(),
            "links_flows": flows.astype(np.int64).tolist(),
            "cells": _cell_values(network, view, value),
        },
        "highest": _worst(np.zeros(len(value), np.int64), value, 1)[0],
        "hot": int(hot.sum()),
        "above": int(above.sum()),
        "switches": len(network.shape.nodes),
        "ports": int(with_port.sum()),
        "left_off": links.left_off,
        "switches_left_off": network.snapshot.left_off,
    }


@dataclass(frozen=True, slots=True)
class _Links:
    """The links between the nodes of a view: one for each port of a switch, or for all ports from a node to
    another if either of them is several switches.
    """

    start: Ints
    """The node at which each link begins."""
    end: Ints
    port: Ints
    """NONE: several."""
    places: Ints
    """Rows of the places of links."""
    of_places: Ints
    """The link of each of these places."""
    left_off: int
    """Places that are left off, because there are more than MAX_LINKS."""


def _links(network: Network, view: Shown, start: Ints, value: npt.NDArray[np.float64]) -> _Links:
    """`start`: the node of the view that has each place; `value`: by which places are left off."""
    size, end = max(1, len(view.nodes)), _shown_at(view, network.end)
    inner = np.flatnonzero((start != NONE) & (end != NONE) & (start != end))
    left_off = max(0, len(inner) - MAX_LINKS)
    if left_off:
        inner = np.sort(inner[np.argsort(np.nan_to_num(value[inner], nan=-1))[left_off:]])
    both = view.single[start[inner]] & view.single[end[inner]]
    port = np.where(both, parts_of(network.snapshot.rows["place"])[1][inner], NONE)
    keys, link = np.unique((start[inner] * size + end[inner]) << _PORT_BITS | port + 1, return_inverse=True)
    ends, port = keys >> _PORT_BITS, (keys & (1 << _PORT_BITS) - 1) - 1
    return _Links(ends // size, ends % size, port, inner, link, left_off)


def _structure(network: Network, view: Shown, names: Names, links: _Links, hosts: Ints) -> dict[str, Any]:
    """Nodes and links without values, as JSON. `hosts`: the node of each port that leads to no switch."""
    return {
        "layers": list(network.shape.layers),
        "pods": list(network.shape.pods),
        "nodes": _nodes(network, view, names, np.bincount(hosts, minlength=len(view.nodes))),
        "links": {
            "from": links.start.tolist(),
            "to": links.end.tolist(),
            "count": np.bincount(links.of_places, minlength=len(links.start)).tolist(),
            "port": [None if port == NONE else port for port in links.port.tolist()],
        },
    }


def _version(network: Network, view: Shown, links: _Links) -> str:
    """A hash of all that the structure is made from."""
    of_network = (network.shape.nodes, network.shape.layer, network.start, network.end)
    parts = (*of_network, view.of, links.start, links.end, links.port)
    return sha256(b"".join(array.tobytes() for array in parts)).hexdigest()[:16]


def _shown_at(view: Shown, switches: Ints) -> Ints:
    """Node of the view that each switch belongs to; NONE: it is not shown, or there is no switch."""
    if not len(view.of):
        return np.full(len(switches), NONE)
    return np.where(switches == NONE, NONE, view.of[switches])


def _worst(group: Ints, value: npt.NDArray[np.float64], count: int) -> list[int | None]:
    """Highest value of each group; None if no value is known."""
    found = np.full(count, np.nan)
    np.fmax.at(found, group, value)
    return [None if np.isnan(highest) else int(highest) for highest in found.tolist()]


def _nodes(network: Network, view: Shown, names: Names, host_ports: Ints) -> list[dict[str, Any]]:
    """The nodes with their number of host ports; those of several switches with a list of these switches."""
    shape = network.shape
    nodes = [{**node, "host_ports": int(ports)} for node, ports in zip(view.nodes, host_ports, strict=True)]
    for node, members in zip(nodes[len(nodes) - len(view.cells) :], view.cells, strict=True):
        node["cells"] = {
            "ids": shape.nodes[members].tolist(),
            "names": [names.node_label(switch) for switch in shape.nodes[members].tolist()],
            "layers": shape.layer[members].tolist(),
        }
    return nodes


def _cell_values(network: Network, view: Shown, value: npt.NDArray[np.float64]) -> list[list[int | None]]:
    """The highest value of every switch in the nodes of several switches."""
    if not view.cells:
        return []
    worst = _worst(network.start, value, len(network.shape.nodes))
    return [[worst[row] for row in members.tolist()] for members in view.cells]


def port_objects(network: Network, names: Names, nodes: Ints) -> list[dict[str, Any]]:
    """All egress ports of these nodes, with the values of all metrics, as JSON."""
    shape, found = network.shape, []
    rows = network.snapshot.rows
    of_node, of_port, _ = parts_of(rows["place"])
    for at in np.flatnonzero(np.isin(of_node, nodes)).tolist():
        row, node, port = rows[at], int(of_node[at]), int(of_port[at])
        following = int(row["next"])
        layer = int(shape.layer[network.start[at]])
        found.append(
            {
                "node": node_object(names, node),
                "port": None if port == UNKNOWN else port_object(names, node, port),
                "layer": shape.layers[layer],
                "next": None if following == NONE else node_object(names, following),
                "next_port": None if row["next_port"] == NONE else int(row["next_port"]),
                "flows": int(row["flows"]),
                "known_from": [name for bit, name in SOURCES.items() if int(row["sources"]) & bit],
                "disputed": bool(row["disputed"]),
                "values": {
                    name: {
                        "latest": _number(row["latest"][number]),
                        "highest": _number(row["highest"][number]),
                        "alarm": bool(row["alarm"][number]),
                    }
                    for number, name in enumerate(METRICS)
                },
            }
        )
    return found


def _number(value: float) -> int | None:
    return None if np.isnan(value) else int(value)
