"""``python -m testbed.engine``: install the engine, or print the versions it consists of."""

from __future__ import annotations

import argparse

from testbed.engine.environment import ensure_engine, freeze


def main() -> None:
    """Run one command."""
    parser = argparse.ArgumentParser(prog="python -m testbed.engine", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("install", help="install vLLM for CPUs into the per-user cache and print its Python")
    commands.add_parser("freeze", help="print the exact versions, for constraints.txt")
    if parser.parse_args().command == "install":
        print(ensure_engine())
    else:
        print(freeze(), end="")


if __name__ == "__main__":
    main()
