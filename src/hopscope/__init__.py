"""Hopscope: In-band Network Telemetry reports in, answers out."""

__version__ = "0.1.0"
