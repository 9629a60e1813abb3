"""Flow, port and source tables, and the events of reports."""
