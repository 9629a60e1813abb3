"""INT on Linux interfaces: programs at tc, their settings and counters; attaching and removing them."""
