"""OTLP: events as logs, and metrics, in the protocol of OpenTelemetry over HTTP."""
