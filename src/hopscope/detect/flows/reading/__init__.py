"""Reads the tables of flows, ports and sources while workers write them: live flows, their hops, sums."""
