"""The controller of switches: wanted states, drivers that reach switches, the loop that reconciles both."""
