"""Direct telemetry access as processes: translator and software NIC."""
