"""How questions become SQL over a snapshot of the files, and answers tables."""
