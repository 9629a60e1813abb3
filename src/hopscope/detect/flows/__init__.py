"""Flow, port and source tables, and the events of reports; `reading/`: what other processes see of them."""
