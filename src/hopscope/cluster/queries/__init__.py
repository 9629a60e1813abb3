"""Queries to all members, and their answers."""
