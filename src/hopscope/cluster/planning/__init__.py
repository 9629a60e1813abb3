"""Sizing of clusters, and the effects of failures."""
