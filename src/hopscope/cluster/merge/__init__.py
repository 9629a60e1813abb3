"""Rules by which the answers of members become one."""
