"""`python -m genlabel` is the command line."""

from genlabel.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
