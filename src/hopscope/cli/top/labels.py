"""Labels in `hopscope top`: coverage, silent ports, and the newest label of every port."""

from __future__ import annotations

import numpy as np
from rich.table import Table

from ...base.names import Names
from ...labels.counters import LABEL_COUNTERS
from ...labels.state import NEVER
from ...present.collector_state import CollectorState
from ...present.units import duration
from .table import make_table, red


class LabelTables:
    """Rows and a table about the labels that a collector takes, if it takes any."""

    def __init__(self, state: CollectorState, names: Names) -> None:
        self._state, self._names = state, names

    @property
    def exist(self) -> bool:
        """Whether the collector takes labels."""
        return self._state.labels.about() is not None

    def add_counts(self, table: Table) -> None:
        """Add rows of (name, rate per second, total)."""
        ports = self._state.labels.ports()
        labels, silent = int(ports["labels"].sum()), int(np.count_nonzero(ports["silent"]))
        table.add_row("labels", f"{float(ports['rate'].sum()):,.0f}", f"{labels:,}")
        table.add_row("ports that label", "", f"{len(ports):,}")
        table.add_row("silent ports", "", f"{silent:,}", style=red(silent > 0))
        coverage = self._state.labels.mean_coverage()
        table.add_row("coverage, 10 s", "", "" if coverage is None else f"{coverage:.2%}")
        if lost := LABEL_COUNTERS.read(self._state.regions)["label_kernel_drops_total"]:
            table.add_row("lost: labels dropped by the kernel", "", f"{lost:,}", style="red")

    def ports(self, rows: int, nodes: tuple[int, ...]) -> Table:
        """Silent ports, then the ports with the highest latency."""
        table = make_table("ports that label", "latency", "queue bytes", "labels/s", "age", "port")
        now, found = self._state.labels.copy()
        if nodes:
            found = found[np.isin(found["node_id"], nodes)]
        order = np.lexsort((-found["latency_ns"].astype(np.int64), -found["silent"].astype(np.int8)))
        for row in found[order[:rows]]:
            node, port, received = int(row["node_id"]), int(row["port"]), int(row["received_ns"])
            known = received != NEVER
            table.add_row(
                self._names.node_label(node),
                duration(int(row["latency_ns"])) if known else "",
                f"{int(row['occupancy']):,}" if known else "",
                f"{float(row['rate']):,.0f}",
                duration(max(0, now - received)) if known else "never",
                self._names.port_label(node, port),
                style=red(bool(row["silent"])),
            )
        return table
