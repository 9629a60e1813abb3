"""Mapped memory that processes share: regions, rings and snapshots."""
