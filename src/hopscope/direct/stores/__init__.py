"""Stores: the memory that reports are written to, its epochs, and queries by key."""
