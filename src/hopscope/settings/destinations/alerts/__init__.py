"""Settings of receivers of alerts."""
