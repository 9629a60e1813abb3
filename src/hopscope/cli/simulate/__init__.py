"""`hopscope simulate`."""
