"""Which collector has the answer to a key."""
