"""Reports written straight into memory that answers queries: DTA and DART, and the translator."""
