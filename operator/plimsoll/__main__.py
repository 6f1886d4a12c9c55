"""``python -m plimsoll``: the same as the ``plimsoll`` command."""

from plimsoll.cli.main import main

if __name__ == "__main__":
    main()
