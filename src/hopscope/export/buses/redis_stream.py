"""Redis streams: a script adds the messages of a block atomically, unless the stream already has them."""

from __future__ import annotations

from typing import Any

from ...settings.destinations.buses import RedisStreamSettings
from ..block import EventBlock
from ..destination import Context, DeliveryError, Destination
from ..redis.client import redis_client
from .messages import Encoder, place

ADD = """
local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
if newest[1] and newest[1][2][2] == ARGV[#ARGV - 2] then return 0 end
for at = 2, #ARGV, 3 do
  redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*',
    'id', ARGV[at], 'key', ARGV[at + 1], 'events', ARGV[at + 2])
end
return 1
"""
"""Adds messages (id, key and body of each in ARGV[2…]) to a stream of at most ARGV[1] entries. It adds none
if the stream's newest block is the same: only the newest block of a shard is ever sent again.
"""


class RedisStream(Destination):
    """One server, and a stream for each shard."""

    Settings = RedisStreamSettings

    def __init__(self, settings: RedisStreamSettings, context: Context) -> None:
        super().__init__(settings, context)
        self._encoder = Encoder(settings, context)
        self._add: Any = None

    def connect(self) -> None:
        """Connect, and send the script."""
        self.close()
        self._client = redis_client(self.settings, self.settings.timeout_seconds)
        self._add = self._client.register_script(ADD)

    def send(self, block: EventBlock) -> None:
        """Add the messages of a block, all or none."""
        import redis

        words: list[str | bytes] = []
        size = 0
        for message in self._encoder.messages(block):
            words += (message.id, message.key, message.body)
            size += len(message.body)
        stream = place(self.settings.prefix, block.member, block.shard, ":")
        try:
            self._add([stream], [self.settings.entries, *words])
        except (redis.RedisError, OSError) as error:
            raise DeliveryError(error) from None
        self.context.count("bytes_total", size)
