"""``python -m detol``: the command line."""

from detol.cli import main

if __name__ == "__main__":
    main()
