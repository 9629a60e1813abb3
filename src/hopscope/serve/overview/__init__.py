"""The overview: the collector twice per second, while somebody looks."""
