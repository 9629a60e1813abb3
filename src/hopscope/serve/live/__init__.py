"""Live values: answers of the API, pushed when they change."""
