"""What tests, and tests and benchmarks, share."""
