"""The INT sink: what it keeps of every packet's INT, and what it tells (SmartNIC INT sink, section III)."""
