"""Flows and sources that other members had before."""
