"""Routes of the API, and the models of what they answer."""
