"""Routes of the API and the models of their responses."""
