"""The version, which files and messages carry."""

VERSION = "0.2.0.dev0"
