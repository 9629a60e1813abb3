"""Removes INT from packets."""
