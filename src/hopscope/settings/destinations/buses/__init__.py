"""Settings of message buses: Kafka, MQTT, NATS JetStream, Redis streams."""
