"""Settings of databases and files of events."""
