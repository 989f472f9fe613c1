"""`python -m genlabel` is the command line."""

from genlabel.cli import main

if __name__ == "__main__":
    main()
