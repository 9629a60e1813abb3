"""MQTT 5: messages of quality of service 1; the broker confirms each before the next block is sent."""

from __future__ import annotations

import threading
from typing import Any
from urllib.parse import urlsplit

from ...settings.destinations.buses import MqttSettings
from ..block import EventBlock
from ..credentials import secret, tls_context
from ..destination import Context, DeliveryError, Destination
from .messages import Encoder, Message, place, safe

WINDOW = 100
"""Maximum number of unconfirmed messages; a broker may allow fewer."""
ALIVE_SECONDS = 30
MOST = 256 * 1024**2
"""Maximum size of a packet (MQTT 5.0 §1.5.5); a broker may allow less."""
HEADER = 1024
"""Bytes of a packet reserved for topic and properties."""
PORTS = {"mqtt": 1883, "mqtts": 8883}


class Mqtt(Destination):
    """One broker. The client's thread answers pings and receives confirmations."""

    Settings = MqttSettings
    settings: MqttSettings

    def __init__(self, settings: MqttSettings, context: Context) -> None:
        super().__init__(settings, context)
        self._encoder = Encoder(settings, context)
        self._client: Any = None
        self._changed = threading.Condition()
        self._connected = False
        self._waiting = self._until = 0
        self._window, self._most = WINDOW, MOST
        self._problem = ""

    def connect(self) -> None:
        """Connect with a clean session; unconfirmed messages are sent again unchanged."""
        import paho.mqtt.client as mqtt

        settings = self.settings
        self.close()
        parts = urlsplit(settings.url)
        client = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2,  # type: ignore[attr-defined,unused-ignore]
            client_id=settings.client_id or f"hopscope-{safe(self.context.member)}-{self.context.name}",
            protocol=mqtt.MQTTv5,
            reconnect_on_failure=False,  # the sender does it
        )
        client.connect_timeout = settings.timeout_seconds
        client.max_inflight_messages_set(WINDOW)
        client.on_connect, client.on_disconnect = self._answered, self._lost
        client.on_publish = self._confirmed
        self._connected, self._waiting, self._problem = False, 0, ""
        try:
            if settings.user:
                client.username_pw_set(settings.user, secret(settings.password))
            if parts.scheme == "mqtts":
                client.tls_set_context(tls_context(settings))
            client.connect(
                parts.hostname or "", parts.port or PORTS[parts.scheme], ALIVE_SECONDS, clean_start=True
            )
        except (OSError, ValueError) as error:
            raise DeliveryError(error) from None
        self._client = client
        client.loop_start()
        with self._changed:
            self._changed.wait_for(lambda: self._connected or self._problem, settings.timeout_seconds)
            if not self._connected or self._problem:
                raise DeliveryError(self._problem or f"no answer within {settings.timeout_seconds:g} s")

    def send(self, block: EventBlock) -> None:
        """Publish the messages of a block, and wait until all are confirmed."""
        messages = list(self._encoder.messages(block, self._most))
        topic = place(self.settings.prefix, block.member, block.shard, "/")
        for message in messages:
            if len(message.body) > self._most:
                problem = f"message of {len(message.body)} bytes, the broker takes {self._most}"
                raise DeliveryError(problem, again=False)
        for message in messages:
            self._publish(topic, message)
        self._wait(0)
        self.context.count("bytes_total", sum(len(message.body) for message in messages))

    def close(self) -> None:
        """Close the connection, and end the client's thread."""
        client, self._client = self._client, None
        if client is not None:
            client.disconnect()
            client.loop_stop()

    def _publish(self, topic: str, message: Message) -> None:
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        properties: Any = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call,unused-ignore]
        properties.ContentType = self._encoder.content_type
        properties.UserProperty = [("hopscope-id", message.id), ("hopscope-key", message.key)]
        if self._waiting >= self._window:
            self._wait(self._window // 2)  # not for each confirmation
        with self._changed:
            self._waiting += 1
        self._client.publish(topic, message.body, qos=1, properties=properties)

    def _wait(self, most: int) -> None:
        """Wait until at most `most` messages are unconfirmed."""
        seconds = self.settings.timeout_seconds
        with self._changed:
            self._until = most
            if not self._changed.wait_for(lambda: self._waiting <= most or self._problem, seconds):
                raise DeliveryError(f"no confirmation within {seconds:g} s")
            if self._problem:
                raise DeliveryError(self._problem)

    # ------------------------------------------------------------------------------ in the client's thread

    def _answered(self, client: Any, data: object, flags: object, code: Any, properties: Any) -> None:
        with self._changed:
            if code.is_failure:
                self._problem = f"connection rejected: {code}"
            else:
                self._window = min(WINDOW, getattr(properties, "ReceiveMaximum", WINDOW))
                self._most = getattr(properties, "MaximumPacketSize", MOST) - HEADER
                self._connected = True
            self._changed.notify()

    def _lost(self, client: Any, data: object, flags: object, code: Any, properties: Any) -> None:
        with self._changed:
            self._problem = self._problem or f"connection lost: {code}"
            self._changed.notify()

    def _confirmed(self, client: Any, data: object, number: int, code: Any, properties: Any) -> None:
        with self._changed:
            self._waiting -= 1
            if code.is_failure:
                self._problem = f"message rejected: {code}"
            if self._waiting <= self._until or self._problem:
                self._changed.notify()
