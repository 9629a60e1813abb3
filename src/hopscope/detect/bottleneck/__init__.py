"""Latency and loss attributed to switches, ports and queues."""
