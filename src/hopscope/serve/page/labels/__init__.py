"""INT-label on the live page: coverage, ports by the age of their newest label, tracked flows."""
