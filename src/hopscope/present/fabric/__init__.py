"""The network as a map: places learned from paths, layers, pods, and values, live or at a past moment."""
