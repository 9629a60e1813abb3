"""HTTP API, metrics and the live page."""
