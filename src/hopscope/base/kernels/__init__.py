"""Writes (`jit`), compiles and caches kernels, and runs them without a compiler (`plain`)."""
