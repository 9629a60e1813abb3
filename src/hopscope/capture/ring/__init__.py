"""Packet rings of an interface (TPACKET_V3), to receive and send frames."""
