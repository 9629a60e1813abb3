"""The processes of a fabric of network namespaces: how they start, run and end."""
