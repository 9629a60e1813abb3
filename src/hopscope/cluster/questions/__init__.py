"""Questions to all members, and the answers of all."""
