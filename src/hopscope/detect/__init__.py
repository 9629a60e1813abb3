"""Keyed state of the network, and events when it changes."""
