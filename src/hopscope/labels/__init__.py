"""INT-label during operation: label table, tracked flows, coverage, controller, registers."""
