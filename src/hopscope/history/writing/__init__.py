"""Who writes: the journal, the archive that makes segments of it, periods of distributions, and retention."""
