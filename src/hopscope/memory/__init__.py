"""Mapped memory shared by processes: regions, rings and snapshots."""
