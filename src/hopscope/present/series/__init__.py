"""Values of places over time: from events of history, and for the last minutes also from the live state."""
