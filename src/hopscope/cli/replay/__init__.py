"""`hopscope replay`."""
