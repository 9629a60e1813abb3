"""The translator: turns reports into memory operations, checks sequence numbers, sends acknowledgments."""
