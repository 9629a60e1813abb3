"""sFlow version 5 (sflow.org): samples of packets, interface counters and discarded packets as reports."""
