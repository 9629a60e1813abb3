"""A small fabric of network namespaces whose switches label real packets."""
