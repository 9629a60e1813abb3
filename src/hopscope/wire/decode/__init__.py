"""Frames to report batches, reports as JSON, and evidence for a dialect."""
