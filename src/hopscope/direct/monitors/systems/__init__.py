"""The monitoring systems: one module each."""
