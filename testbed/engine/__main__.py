"""``python -m testbed.engine``: install the engine, print its versions, or say whether it has to be asked again."""

from __future__ import annotations

import argparse
import sys

from testbed.engine.environment import ensure_engine, freeze
from testbed.engine.sources import ROOT, check, write


def main() -> None:
    """Run one command."""
    parser = argparse.ArgumentParser(prog="python -m testbed.engine", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("install", help="install vLLM for CPUs into the per-user cache and print its Python")
    commands.add_parser("freeze", help="print the exact versions, for constraints.txt")
    commands.add_parser("unchanged", help="exit status 0: nothing has changed since the engine was asked; 1: what has")
    commands.add_parser("asked", help="note that it was asked about everything as it is now")
    match parser.parse_args().command:
        case "install":
            print(ensure_engine())
        case "freeze":
            print(freeze(), end="")
        case "unchanged":
            sys.exit(0 if check(ROOT) else 1)
        case _:
            write(ROOT)


if __name__ == "__main__":
    main()
