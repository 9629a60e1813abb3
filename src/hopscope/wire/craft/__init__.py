"""JSON objects to frames."""
