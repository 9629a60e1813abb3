"""Members of a cluster, and lakes."""
