"""IPFIX: flow records and events as data records (RFC 7011)."""
