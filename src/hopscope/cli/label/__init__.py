"""`hopscope label`."""
