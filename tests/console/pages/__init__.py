"""Tests of single pages. A package, at whose end its collector ends; see conftest.py."""
