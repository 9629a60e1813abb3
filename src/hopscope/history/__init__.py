"""What stays: the journal, Parquet segments, and queries over both."""
