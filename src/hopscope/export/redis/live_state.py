"""Redis: the latest state of flows and distributions (`commands` has the keys).

Live flows and distributions are read from the regions when they are due; flow records, which are events, mark
the end of flows. After each new connection the whole state is written again, since the server may have lost
it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ...detect.records import Kind, Metric
from ...settings.destinations.redis import RedisStateSettings
from ..block import EventBlock, EventFilter
from ..destination import Context, DeliveryError, Destination
from ..state import StateFeed
from .client import redis_client
from .commands import Command, Commands


class RedisState(Destination):
    """One Redis server."""

    Settings = RedisStateSettings

    def __init__(self, settings: RedisStateSettings, context: Context) -> None:
        super().__init__(settings, context)
        live_seconds = context.idle_seconds + 2 * settings.flush_seconds
        self._commands = Commands(settings, context.names, live_seconds)
        self._filter = EventFilter(settings)
        self._state = StateFeed(context.regions, settings.flush_seconds, settings.contents)

    def connect(self) -> None:
        """Connect; all state is due again."""
        self.close()
        self._client = redis_client(self.settings, self.settings.timeout_seconds)
        self._state.restart()

    def send(self, block: EventBlock) -> None:
        """Mark the flows of flow records as ended."""
        records = block.records
        left = records[(records["kind"] == Kind.FLOW_RECORD) & (records["metric"] == Metric.FLOW_PATH)]
        self._write(self._commands.ended(left))
        self._state.forget(left["flow_id"])  # flows that are live again are written again

    def tick(self, idle: Collection[int], ending: bool) -> int:
        """Write the state that is due; at the end, write everything that has changed."""
        deliveries = 0
        for block in self._state.flows(ending):
            wanted = self._filter.flows(block)
            if len(wanted):
                self._write(self._commands.flows(wanted))
                self.context.count("flows_total", len(wanted))
                deliveries += 1
        found = self._state.distributions(ending)
        if found is not None:
            self._write(self._commands.distributions(found))
            self.context.count("distributions_total", len(found))
            deliveries += 1
        return deliveries

    def _write(self, parts: Iterable[list[Command]]) -> None:
        """Send each part as one pipeline, without a transaction."""
        import redis

        for commands in parts:
            pipe = self._client.pipeline(transaction=False)
            for command in commands:
                pipe.execute_command(*command)
            try:
                pipe.execute()
            except (redis.RedisError, OSError) as error:
                raise DeliveryError(error) from None
