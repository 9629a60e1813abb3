"""A Linux switch as a process: its agent for a controller, and direct writes to collectors' memory."""
