"""Evidence: the reports that caused notable events, with the bytes of their datagrams."""
