"""Metrics as line protocol of InfluxDB: measurements `int_*` for values from switches, `hopscope` for others.

Tags are the labels of the families; `node` and `port` are names, `node_id` and `port_id` numbers, as in
`int_event`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...naming.interfaces import COUNTER_NAMES
from ..databases.influx_client import InfluxClient
from ..databases.line_protocol import tag
from .destination import MetricsDestination, Round

MEASUREMENTS = {
    "hopscope_hop_latency_seconds": ("int_hop", "latency_seconds"),
    "hopscope_queue_occupancy": ("int_queue", "occupancy"),
    "hopscope_queue_occupancy_highest": ("int_queue", "occupancy_highest"),
    "hopscope_queue_congestion": ("int_queue", "congestion"),
    "hopscope_queue_congestion_highest": ("int_queue", "congestion_highest"),
    "hopscope_buffer_occupancy": ("int_queue", "buffer_occupancy"),
    "hopscope_buffer_occupancy_highest": ("int_queue", "buffer_occupancy_highest"),
    "hopscope_link_utilization": ("int_port", "utilization"),
    "hopscope_link_utilization_highest": ("int_port", "utilization_highest"),
    "hopscope_drops": ("int_port", "drops"),
    **{f"hopscope_interface_{name}": ("int_port", f"interface_{name}") for name in COUNTER_NAMES},
    "hopscope_top_flow_latency_seconds": ("int_flow", "latency_seconds"),
    "hopscope_top_flow_packets": ("int_flow", "packets"),
    "hopscope_end_to_end_latency_seconds": ("int_flow", "end_to_end_latency_seconds"),
}
"""Measurement and field by family; a suffix after the family's name is appended to the field."""
OTHERS = "hopscope"
"""Measurement of all other families, with the metric's name as field."""
LINES = 5000
"""Maximum number of lines in one request."""
_TAGS = {"node": "node_id", "node_name": "node", "port": "port_id", "port_name": "port"}


class InfluxMetrics(MetricsDestination):
    """One server."""

    _client: InfluxClient

    def connect(self) -> None:
        """Create the database or bucket if it is missing and `create` is set."""
        self.close()
        self._client = InfluxClient(self.settings, self.settings.timeout_seconds)

    def send(self, taken: Round) -> None:
        """Write a point for each sample, a few thousand at a time."""
        lines = list(lines_of(taken, self.context.member))
        for at in range(0, len(lines), LINES):
            body = "\n".join(lines[at : at + LINES]).encode("utf-8", "replace")
            self.context.count("bytes_total", self._client.write(body))


def lines_of(taken: Round, member: str) -> Iterator[str]:
    """A line for each sample that is a number."""
    at = f"{taken.time_ms}000000"
    for family in taken.families:
        measurement, field = MEASUREMENTS.get(family.name, (OTHERS, family.name.removeprefix("hopscope_")))
        for sample in family.samples:
            if not math.isfinite(sample.value):
                continue
            name = field + sample.name.removeprefix(family.name)
            tags = {_TAGS.get(label, label): text for label, text in sample.labels.items() if text}
            for label in ("node", "port"):
                if label not in tags and f"{label}_id" in tags:
                    tags[label] = tags[f"{label}_id"]
            head = ",".join(f"{label}={tag(text)}" for label, text in sorted(tags.items()))
            head = f"{measurement},collector={tag(member)}{',' if head else ''}{head}"
            yield f"{head} {name}={float(sample.value)!r} {at}"
