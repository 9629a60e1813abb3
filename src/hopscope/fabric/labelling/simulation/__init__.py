"""Simulates INT-label packet by packet."""
