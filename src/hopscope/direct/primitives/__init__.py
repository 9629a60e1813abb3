"""The primitives: one module each, with its kernels, that ends in `register`."""
