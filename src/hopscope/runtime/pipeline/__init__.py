"""What a report goes through in every collector, and what is kept of it."""
