"""Routes of the API: each module answers for one resource; `history/` is about the past."""
