"""`hopscope fabric`."""
