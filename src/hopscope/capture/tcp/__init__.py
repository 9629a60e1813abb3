"""IPFIX over TCP: connections of exporters, whose messages become frames."""
