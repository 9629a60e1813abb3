"""Flows, live and past: search, groups, paths over time, latency by hop."""
