"""Who may ask and change what over HTTP: `guard` stands in front of everything, `access` knows who asks."""
