"""Who may ask and change what over HTTP: `guard` sees every request first, `access` identifies who asks."""
