"""INT out of packets and into them."""
