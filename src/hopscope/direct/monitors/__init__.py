"""Monitors: their common code, and in `systems/` the systems of DTA's Table 2."""
