"""`hopscope demo`."""
