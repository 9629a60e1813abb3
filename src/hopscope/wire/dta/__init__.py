"""Direct Telemetry Access packets."""
