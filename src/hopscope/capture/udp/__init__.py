"""UDP sockets that receive reports and send datagrams."""
