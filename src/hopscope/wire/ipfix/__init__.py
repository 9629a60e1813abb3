"""IPFIX (RFC 7011) and NetFlow version 9 (RFC 3954): flow records as reports."""
