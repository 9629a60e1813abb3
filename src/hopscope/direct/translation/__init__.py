"""The translator: reports to memory operations, sequence numbers, acknowledgments."""
