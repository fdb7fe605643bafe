"""Run the command line with ``python -m roofcast.cli``."""

from .main import main

main()
