"""INT-label's closed forms, and plans made with them."""
