"""INT-label as a process: labels into the table, and events of labels."""
