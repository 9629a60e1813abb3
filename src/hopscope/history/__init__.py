"""Stored events and distributions: the journal, Parquet segments, and queries over both."""
