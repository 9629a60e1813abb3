"""UDP sockets: reports in, datagrams out."""
