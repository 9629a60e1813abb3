"""The main process: it owns the data folder, runs the other processes, and applies changes."""
