"""Names of nodes and ports, and counters of interfaces, read from devices."""
