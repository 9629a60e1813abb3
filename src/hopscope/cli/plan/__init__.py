"""`hopscope plan`."""
