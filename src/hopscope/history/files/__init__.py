"""Files on disk: their names, the format of journals, segments with indexes and checksums, periods."""
