"""Readable twins of kernels: slow, plain, and only for tests."""
