"""Routes about the past: events and what surrounds them, values over time, distributions, and SQL."""
