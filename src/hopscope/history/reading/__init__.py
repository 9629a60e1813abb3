"""Turns queries into SQL over a snapshot of the files, and answers into tables."""
