"""Databases as destinations of events."""
