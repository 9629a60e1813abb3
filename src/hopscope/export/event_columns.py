"""Columns of events for encoders that render them as lines of text."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..detect.records import PATH_PART, ClearReason, Kind, Metric
from ..wire.records import Records
from .rendering import Column, Mask


def labels_by_code(known: type[Kind | Metric | ClearReason]) -> list[str]:
    """Labels by code, 256 of them; the number for an unknown code."""
    labels = {one.value: one.label for one in known}
    return [labels.get(code, str(code)) for code in range(256)]


def ports_of_nodes(node: Column, port: Column) -> tuple[list[tuple[int, int]], Column]:
    """The distinct (node, port) pairs of events, and the index of each event's pair. An
    unknown port becomes 2^32 - 1.
    """
    keys = node.astype(np.uint64) << np.uint64(32) | port.astype(np.uint32)
    pairs, index = np.unique(keys, return_inverse=True)
    return [(pair >> 32, pair & 0xFFFFFFFF) for pair in pairs.tolist()], index


def path_columns(
    events: Records, lengths: Column, where: Mask, whole: Mapping[tuple[int, int], list[int]]
) -> tuple[Column, Column, Column]:
    """Nodes of all paths, concatenated, and where the path of each event begins and ends, int64 [n].

    `lengths` [n]: number of nodes in an event's own record; `whole`: the `long_paths`, some of which may be
    events in `where`.
    """
    nodes = [events["path"].ravel()]
    first = np.arange(len(events)) * PATH_PART
    end = first + lengths
    at = nodes[0].size
    for row in np.flatnonzero(where).tolist() if whole else ():
        if path := whole.get((int(events["shard"][row]), int(events["sequence"][row]))):
            nodes.append(np.array(path, np.uint32))
            first[row], end[row] = at, at + len(path)
            at += len(path)
    return np.concatenate(nodes), first, end
