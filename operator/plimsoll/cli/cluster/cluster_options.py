"""The options with which commands select a cluster."""

from __future__ import annotations

from typing import Any

import click

_OPTIONS = (
    click.option("--kubeconfig", type=click.Path(exists=True, dir_okay=False), help="As for kubectl."),
    click.option("--context", help="As for kubectl."),
)


def with_cluster(command: Any) -> Any:
    """Add the options of a command that reads from the cluster."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
