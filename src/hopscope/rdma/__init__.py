"""RoCEv2: memory operations as packets, queue pairs that send and answer them, and a software NIC."""
