"""Latency attribution: computed from the best source that is available, and shown as objects of the API."""
