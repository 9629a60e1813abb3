"""INT-label's live side: label table, tracked flows, coverage, controller, registers."""
