"""The controller of switches: what is asked of each, drivers that reach them, and the loop between both."""
