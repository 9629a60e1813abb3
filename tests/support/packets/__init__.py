"""What tests send and decode: packets by hand, by loops and by kernels, and what tshark says of them."""
