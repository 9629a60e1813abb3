"""Settings: sections as pydantic models, dialects by name, and where values come from."""
