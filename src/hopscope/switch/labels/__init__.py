"""INT-label on Linux interfaces: programs that label, their maps, and the last hop, which sends labels."""
