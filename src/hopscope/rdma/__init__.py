"""RoCEv2: memory operations as packets, queue pairs that send and answer these, and a software NIC."""
