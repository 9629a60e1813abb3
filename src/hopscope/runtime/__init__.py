"""The one place that joins rooms: processes, their loops, and what they run."""
