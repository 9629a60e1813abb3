"""Settings of destinations, a module for each kind: databases, buses, Redis, alerts, metrics."""
