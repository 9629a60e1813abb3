"""INT-label simulated packet by packet."""
