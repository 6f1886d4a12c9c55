"""``plimsoll run``."""

from __future__ import annotations

import click

from plimsoll.cli.later import run_operator


@click.command("run")
def command() -> None:
    """Run the operator. Settings come from PLIMSOLL_* environment variables."""
    run_operator()
