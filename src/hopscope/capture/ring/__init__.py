"""Packet rings of an interface (TPACKET_V3): frames in and out."""
