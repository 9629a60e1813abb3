"""Experiments on labelling: sweeps, events, files and plots."""
