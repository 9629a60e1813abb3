"""Events to people and to systems for alerts."""
