"""``python -m testbed``: build the programs, or hold a control plane up for a person to play with."""

from __future__ import annotations

import argparse
import contextlib
import sys

from testbed.binaries import ensure_binaries
from testbed.ending import end_on_signals, stay_up

_INTERRUPTED = 130
"""The exit status that shells give to Ctrl-C."""


def main() -> None:
    """Read the command line and do what it says."""
    parser = argparse.ArgumentParser(prog="python -m testbed", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="build the programs that are missing")
    up = commands.add_parser("up", help="start a control plane with a mixed GPU fleet; Ctrl-C ends it")
    up.add_argument("--judged", action="store_true", help="engine pods start only if the judge says that they fit")
    arguments = parser.parse_args()
    end_on_signals()
    if arguments.command == "build":
        try:
            _build()
        except KeyboardInterrupt:
            sys.exit(_INTERRUPTED)
    else:
        with contextlib.suppress(KeyboardInterrupt):
            _up(judged=arguments.judged)


def _build() -> None:
    binaries = ensure_binaries()
    for name, path in binaries.programs.items():
        print(f"{name:24} {path}")


def _up(*, judged: bool) -> None:
    from testbed.control_plane import ControlPlane  # noqa: PLC0415 -- `build` must work before certificates can be made
    from testbed.fleet import mixed_fleet  # noqa: PLC0415
    from testbed.judge import Judge  # noqa: PLC0415

    with ControlPlane(judged=judged) as control_plane, contextlib.ExitStack() as companions:
        if judged:
            companions.enter_context(Judge(control_plane.client))
        control_plane.apply(mixed_fleet())
        print(f"export KUBECONFIG={control_plane.admin_kubeconfig}", flush=True)
        stay_up()


if __name__ == "__main__":
    main()
