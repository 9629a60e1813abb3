"""Checks of the machine, of the settings, and of a running collector, each with advice."""
