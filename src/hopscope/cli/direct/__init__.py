"""`hopscope direct`."""
