"""Destinations of events and metrics, one module each."""
