"""The Wireshark dissector."""
