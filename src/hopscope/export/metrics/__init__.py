"""Metrics: the families that `/metrics` shows, and destinations to which they are pushed."""
