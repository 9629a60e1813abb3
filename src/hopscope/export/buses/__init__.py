"""Message buses: NATS, Kafka, Redis streams and MQTT get events in one format."""
