"""Sources and destinations of frames: capture files and sockets."""
