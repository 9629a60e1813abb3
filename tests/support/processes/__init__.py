"""Hopscope as its users run it: commands, collectors, installations, pages."""
