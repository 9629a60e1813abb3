"""What the API takes and answers: one module per resource, and what they share in `common`."""
