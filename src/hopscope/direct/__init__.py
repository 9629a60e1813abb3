"""Reports written straight into memory that answers queries: DTA's and DART's primitives, and the translator."""
