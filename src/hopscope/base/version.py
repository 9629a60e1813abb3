"""The version, which files and messages carry."""

VERSION = "0.1.0"
