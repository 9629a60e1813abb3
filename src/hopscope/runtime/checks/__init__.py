"""What a machine offers, what settings name, what is wrong with a collector, and what to do about it."""
