"""Packet formats: codecs and batch decoders, without any I/O."""
