"""Real servers on loopback, and stand-ins for those that no test can start."""
