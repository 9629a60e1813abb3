"""Values of places over time: from events of history, and of the last minutes from live state."""
