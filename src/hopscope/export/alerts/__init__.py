"""Alerts: events for people and alerting systems."""
