"""Reading and writing of capture files: pcap and pcapng."""
