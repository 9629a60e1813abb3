"""Names of nodes and ports, and counters of interfaces, that devices answer."""
