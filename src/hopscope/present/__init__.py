"""Records as people and programs see them: JSON, rows, text, filters, units."""
