"""`python -m hopscope.cli`."""

from . import main

main()
