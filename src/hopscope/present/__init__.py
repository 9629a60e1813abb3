"""Presents records to people and programs: JSON, rows, text, filters, units."""
