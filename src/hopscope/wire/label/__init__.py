"""INT-label packets."""
