"""Databases that events go to."""
