"""How large a cluster must be, and what failures do to it."""
