"""Names of nodes and ports that devices answer."""
