"""Drivers: one module for each kind of switch (`settings.switches`)."""
