"""What the live page shows: looks at the collector, and their drawing."""
