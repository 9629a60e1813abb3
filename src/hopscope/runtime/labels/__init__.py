"""INT-label as a process: writes labels into the table, and events about them."""
