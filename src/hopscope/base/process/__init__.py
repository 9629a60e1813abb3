"""Processes and their loops: processors, memory, titles, what systemd sees, when to stop, control socket."""
