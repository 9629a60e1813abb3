"""Access control over HTTP: `guard` sees every request first, `access` identifies the client."""
