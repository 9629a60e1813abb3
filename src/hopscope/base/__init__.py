"""What every room may import: kernels' compiler, errors, logs, clocks, counters, names."""
