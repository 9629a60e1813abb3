"""The supervisor's child processes: how they start, and what each of them runs."""
