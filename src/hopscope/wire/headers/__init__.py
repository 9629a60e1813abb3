"""Ethernet, VLAN, MPLS, IP, UDP, TCP and tunnel headers, and checksums."""
