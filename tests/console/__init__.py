"""Tests of the console in a browser. A package, at whose end its demo ends; see conftest.py."""
