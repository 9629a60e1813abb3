"""Flows and sources that moved here from other members."""
