"""Membership: who is a member, how a member leaves, and its route."""
