"""The ``plimsoll`` command.

Exit status of ``plan``: 0 everything is placed, 1 something cannot be placed, 2 the input cannot be used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import click

from plimsoll import __version__
from plimsoll.cli.options import RENAMED, CommandGroup
from plimsoll.cli.process import EXIT_BAD_INPUT, keep_stdout_to_ourselves
from plimsoll.domain.errors import PlimsollError

COMMANDS = (
    "acknowledge",
    "approve",
    "capacity",
    "completion",
    "console",
    "estimate",
    "explain",
    "fetch",
    "fleet",
    "gpus",
    "init",
    "learn",
    "models",
    "plan",
    "prices",
    "reject",
    "run",
    "simulate",
    "top",
)


_ELSEWHERE = {"console": "plimsoll.console.command", "top": "plimsoll.console.top.command"}
"""Commands outside of this package. The name is enough: the console imports the command line, and not the reverse."""


class _Commands(CommandGroup):
    """Imports a command when it is called: ``models`` needs a tenth of the time that ``plan`` needs for its imports."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - same
        """The command of that name, with all that it imports."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(_ELSEWHERE.get(cmd_name, f"plimsoll.cli.commands.{cmd_name}")).command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. Raises :class:`RenamedOption` for a name that one of its options had."""
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            new = RENAMED.get(error.option_name)
            command = None if error.ctx is None else error.ctx.command
            if new is None or command is None or not any(new in each.opts for each in command.params):
                raise
            raise RenamedOption(f"{error.option_name} is no option of this command: it is {new} now.") from error


class RenamedOption(PlimsollError):
    """An option has another name than the one that was typed."""


@click.group(cls=_Commands)
@click.version_option(__version__)
def cli() -> None:
    """The load line for GPU memory: size, place and rebalance vLLM deployments on Kubernetes."""


def main() -> None:
    """Entry point: our own errors become one sentence on stderr and exit status 2."""
    keep_stdout_to_ourselves()
    try:
        cli()
    except PlimsollError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(EXIT_BAD_INPUT)
