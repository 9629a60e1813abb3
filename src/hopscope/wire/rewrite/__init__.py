"""Taking INT out of packets, and putting it in."""
