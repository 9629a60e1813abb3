"""Histograms by switch, egress port and queue."""
