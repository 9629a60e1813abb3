"""What the disk has: names of files, the bytes of journals, segments with indexes and checksums, periods."""
