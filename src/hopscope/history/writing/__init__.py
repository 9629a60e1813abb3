"""Writing: the journal, the archive that turns it into segments, periods of distributions, and retention."""
