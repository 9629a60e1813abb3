"""`hopscope cluster`."""
