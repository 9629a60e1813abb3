"""Settings of destinations, a module for each kind: databases and buses by name, webhooks, Redis."""
