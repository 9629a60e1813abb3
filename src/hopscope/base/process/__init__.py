"""Processes and their loops: processors, titles, what systemd sees, when to stop, the control socket."""
