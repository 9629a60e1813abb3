"""Telemetry Reports, INT, IOAM and IFA."""
