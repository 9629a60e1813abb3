"""Removes INT, IFA and IOAM from packets."""
