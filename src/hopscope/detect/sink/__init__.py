"""The INT sink: flow state and events from the INT of every packet (SmartNIC INT sink, section III)."""
