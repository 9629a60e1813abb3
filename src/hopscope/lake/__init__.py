"""The shared history of all members: events in Parquet files, with their catalog in PostgreSQL."""
