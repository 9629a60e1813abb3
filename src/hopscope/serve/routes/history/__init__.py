"""Routes about the past: events and their context, values over time, distributions, and SQL."""
