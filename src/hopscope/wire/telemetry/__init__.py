"""Telemetry Reports, INT and IOAM."""
