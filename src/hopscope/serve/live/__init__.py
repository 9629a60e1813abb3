"""Live values: answers of the API, pushed as they change."""
