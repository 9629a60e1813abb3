"""The overview: reads the collector twice per second while a viewer watches."""
