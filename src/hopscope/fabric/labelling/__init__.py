"""Simulates INT-label: packets and labels, what the controller learns, and the cost of other systems."""
