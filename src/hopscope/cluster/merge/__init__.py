"""Rules that merge the answers of members."""
