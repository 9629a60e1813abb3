"""Where events go: one module per destination."""
