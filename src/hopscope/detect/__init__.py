"""Keyed state of the network and the events that changes of it make."""
