"""Exchange of postcards: they go to the members that own their flows."""
