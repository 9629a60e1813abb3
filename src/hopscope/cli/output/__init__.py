"""What commands print: rows, progress, counters."""
