"""Postcards of one packet joined into one path."""
