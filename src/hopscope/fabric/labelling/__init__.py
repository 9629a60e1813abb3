"""INT-label simulated: who labels which packets, what the controller hears, what others would cost."""
