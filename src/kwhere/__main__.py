"""`python -m kwhere` is `kwhere`."""

from kwhere.cli.main import main

main()
