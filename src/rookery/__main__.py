"""`python -m rookery` is the `rookery` command."""

from rookery.cli import main

main()
