"""Questions to all members, and their answers."""
