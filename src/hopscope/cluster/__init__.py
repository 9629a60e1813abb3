"""Several collectors over NATS: members, configuration, and queries to all of them."""
