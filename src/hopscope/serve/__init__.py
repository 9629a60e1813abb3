"""HTTP API, metrics and the console."""
