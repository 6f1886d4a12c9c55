"""``plimsoll completion``."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from plimsoll.domain.errors import PlimsollError

_PROGRAM = "plimsoll"
_VARIABLE = "_PLIMSOLL_COMPLETE"
"""The variable by which a shell asks for words: it is that of the program's name, as click reads it."""

_SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    r"""Print the code that completes commands, options, models and GPU types in a shell.

    \b
    bash: source <(plimsoll completion bash)                in ~/.bashrc
    zsh:  source <(plimsoll completion zsh)                 in ~/.zshrc, after compinit
    fish: plimsoll completion fish | source                 in ~/.config/fish/config.fish
    """
    found = get_completion_class(shell)
    if found is None:
        raise PlimsollError(f"This release of click completes nothing in {shell}.")
    click.echo(found(context.find_root().command, {}, _PROGRAM, _VARIABLE).source())
