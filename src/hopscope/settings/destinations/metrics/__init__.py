"""Settings of destinations of metrics."""
