"""Direct telemetry access: DTA records, stores, and both ends of RoCEv2."""
