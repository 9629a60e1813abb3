"""`python -m hopscope`."""

from .cli import main

main()
