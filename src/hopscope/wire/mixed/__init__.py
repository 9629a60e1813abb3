"""Captured frames that have Telemetry Reports, sFlow, IPFIX and NetFlow 9."""
