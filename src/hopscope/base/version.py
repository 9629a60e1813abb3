"""The version, which is written into files and messages."""

VERSION = "0.2.0.dev0"
