"""The collector itself for the console: processes, counters, destinations, disk."""
