"""Options that commands share, by group."""
