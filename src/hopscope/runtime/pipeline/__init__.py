"""The steps that every report goes through, and what they store."""
