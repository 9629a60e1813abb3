"""Monitors: what they share, and in `systems/` the systems of DTA's Table 2."""
