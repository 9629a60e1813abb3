"""Reports in, memory operations out: what the translator knows, remembers and answers."""
