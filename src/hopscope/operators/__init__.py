"""What operators decide, and who they are: one SQLite file in the data folder; collecting never needs it."""
