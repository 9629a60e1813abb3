"""Operators' accounts and decisions, in one SQLite file in the data folder; collecting never needs it."""
