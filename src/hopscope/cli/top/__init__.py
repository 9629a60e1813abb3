"""`hopscope top`."""
