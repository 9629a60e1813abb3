"""Direct Telemetry Access (DTA, DART): reports written directly into memory that queries read."""
