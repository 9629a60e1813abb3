"""Report batches to frames, and reports around captured packets."""
