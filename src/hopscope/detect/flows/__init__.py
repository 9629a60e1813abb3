"""Flow, port and source tables, and the events of reports; other processes read tables by `reading/`."""
