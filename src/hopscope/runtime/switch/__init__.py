"""A Linux switch as a process: its agent for a controller, and its writes into collectors' memory."""
