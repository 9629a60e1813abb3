"""Stores: the memory to which reports are written, its epochs, and queries by key."""
