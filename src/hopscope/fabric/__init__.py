"""A simulated network: topology, traffic, queues, switches that write INT, faults."""
