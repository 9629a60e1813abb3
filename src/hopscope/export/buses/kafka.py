"""Kafka: an idempotent producer; a block is delivered once all in-sync replicas have all its messages."""

from __future__ import annotations

from typing import Any

from ...settings.destinations.buses import KafkaSettings
from ..block import EventBlock
from ..credentials import secret
from ..destination import Context, DeliveryError, Destination
from .messages import Encoder, Message

FINAL = ("MSG_SIZE_TOO_LARGE", "INVALID_MSG_SIZE", "RECORD_LIST_TOO_LARGE", "INVALID_RECORD")
"""Errors after which a message is never accepted."""


class Kafka(Destination):
    """One topic of one cluster."""

    Settings = KafkaSettings

    def __init__(self, settings: KafkaSettings, context: Context) -> None:
        super().__init__(settings, context)
        self._encoder = Encoder(settings, context)
        self._producer: Any = None
        self._problem = ""
        self._error: Any = None
        self._waiting = 0

    def connect(self) -> None:
        """Make a producer, and query the topic's partitions."""
        from confluent_kafka import KafkaException, Producer

        one: KafkaSettings = self.settings
        self.close()
        self._problem = ""
        try:
            options = {name: secret(value) for name, value in one.options.items()}
            self._producer = Producer(
                {
                    "client.id": "hopscope",
                    "log_level": 0,  # errors are in health and in our log
                    "partitioner": "murmur2_random",  # the partitioner of the Java client
                    "message.max.bytes": max(1_000_000, one.message_bytes + 100_000),
                    **options,
                    "bootstrap.servers": ",".join(one.brokers),
                    "acks": "all",
                    "enable.idempotence": True,
                    "message.timeout.ms": round(1000 * one.timeout_seconds),
                    "error_cb": self._failed,
                }
            )
            self._producer.list_topics(one.topic, one.timeout_seconds)
        except KafkaException as error:
            if self._producer is not None:
                self._producer.poll(0)  # reports why
            raise DeliveryError(self._problem or error.args[0].str()) from None
        except (ValueError, OSError) as error:
            raise DeliveryError(error) from None

    def send(self, block: EventBlock) -> None:
        """Produce the messages of a block, and wait for the report of each delivery."""
        self._error, self._waiting, size = None, 0, 0
        for message in self._encoder.messages(block):
            self._produce(message)
            size += len(message.body)
        left = self._producer.flush(self.settings.timeout_seconds + 1)
        if self._error is not None or left or self._waiting:
            error, reason = self._error, self._problem
            if error is not None and (not reason or error.name() != "_MSG_TIMED_OUT"):
                reason = error.str()
            raise DeliveryError(reason or "no answer", error is None or error.name() not in FINAL)
        self.context.count("bytes_total", size)

    def close(self) -> None:
        """Drop undelivered messages, which will be sent again, and close connections."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            producer.flush(0)

    def _produce(self, message: Message) -> None:
        headers = {"hopscope-id": message.id, "content-type": self._encoder.content_type}
        while True:
            try:
                self._producer.produce(
                    self.settings.topic,
                    message.body,
                    message.key,
                    headers=headers,
                    on_delivery=self._reported,
                )
            except BufferError:  # the queue is full; each message leaves it within its timeout
                self._producer.poll(0.1)
                continue
            self._waiting += 1
            return

    def _reported(self, error: Any, message: object) -> None:
        self._waiting -= 1
        self._error = self._error or error

    def _failed(self, error: Any) -> None:
        """A connection failed, or the producer did."""
        self._problem = error.str()
