"""Several collectors over NATS: members, configuration, and questions to all of them."""
