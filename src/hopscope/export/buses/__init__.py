"""Message buses: NATS, Kafka, Redis streams and MQTT, which get events in a common format."""
