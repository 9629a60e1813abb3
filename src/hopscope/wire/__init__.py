"""What the bytes mean: codecs and batch decoders, without any I/O."""
