"""The monitoring systems of DTA's Table 2, as small reporters with their queries."""
