"""Labels (INT-label) as a reader sees them: ports that label, their coverage, and tracked flows."""
