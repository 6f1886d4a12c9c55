"""How commands are given the cluster that they ask."""

from __future__ import annotations

from typing import Any

import click

_OPTIONS = (
    click.option("--kubeconfig", type=click.Path(exists=True, dir_okay=False), help="As for kubectl."),
    click.option("--context", help="As for kubectl."),
)


def with_cluster(command: Any) -> Any:
    """The options of a command that asks the cluster."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
