"""`hopscope query`."""
