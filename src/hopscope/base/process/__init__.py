"""Processes and their loops: CPUs, memory, titles, notifications to systemd, stopping, control socket."""
