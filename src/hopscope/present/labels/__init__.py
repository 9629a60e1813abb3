"""Reads the live state of labels (INT-label): ports that label, their coverage, and tracked flows."""
