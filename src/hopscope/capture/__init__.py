"""Where frames come from and go to: capture files and sockets."""
