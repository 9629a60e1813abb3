"""The other processes: how they start, and what each of them runs."""
