"""Removes INT and IFA from packets."""
