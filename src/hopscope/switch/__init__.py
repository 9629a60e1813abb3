"""INT on Linux interfaces: programs at tc, their settings, counters and life."""
