"""Who is a member of the cluster, how one leaves, and its route."""
