"""Reads the flow, port and source tables while workers write them: live flows, their hops, and sums."""
