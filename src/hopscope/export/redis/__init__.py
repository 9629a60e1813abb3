"""Redis: flows, events and distributions."""
