"""The INT sink as a process: strip, forward, report."""
