"""Capture files: pcap and pcapng, in and out."""
