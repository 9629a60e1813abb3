"""Where values of settings come from: file, environment, flags; errors, secrets, descriptions and schema."""
