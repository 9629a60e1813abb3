"""Collectors: whose stores are queried, here or over HTTP, and which of them has the answer to a key."""
