"""``python -m rewind.cli``."""

from rewind.cli import main

main()
