"""`python -m oresmith`: the command line."""

from oresmith.cli import main

if __name__ == "__main__":
    main()
