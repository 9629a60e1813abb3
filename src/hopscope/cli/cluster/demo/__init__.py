"""`hopscope cluster demo`."""
