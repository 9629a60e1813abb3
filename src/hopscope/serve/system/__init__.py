"""The collector itself, as the console shows it: processes, counters, destinations, disk."""
