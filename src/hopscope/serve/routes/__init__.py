"""Routes of the API, one module per resource; `history/` is about the past."""
