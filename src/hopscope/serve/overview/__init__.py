"""The overview: the collector twice per second, while a viewer watches."""
