"""Frames to report batches, JSON of a report, evidence for a dialect."""
