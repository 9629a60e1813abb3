"""Taking INT out of packets."""
