"""Postcards that go to the members that own their flows."""
