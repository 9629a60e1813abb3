"""RoCEv2 packets."""
