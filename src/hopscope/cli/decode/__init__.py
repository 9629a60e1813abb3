"""`hopscope decode`."""
