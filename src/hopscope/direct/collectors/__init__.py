"""Collectors whose stores are queried, on this machine or over HTTP, and which of them has the answer to a
key.
"""
