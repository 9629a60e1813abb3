"""Names of IP protocols (IANA), as shown and as accepted in queries."""

NAMES = {1: "icmp", 6: "tcp", 17: "udp", 47: "gre", 58: "icmpv6", 132: "sctp"}
NUMBERS = {name: number for number, name in NAMES.items()}
