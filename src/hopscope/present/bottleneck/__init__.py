"""Latency attribution: which source answers, and its answer as the objects of the API."""
