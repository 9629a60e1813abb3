"""A fabric of namespaces as processes: how it starts, runs and ends."""
