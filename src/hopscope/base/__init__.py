"""Modules that all rooms may import: the compiler of kernels, errors, logs, clocks, counters, names."""
