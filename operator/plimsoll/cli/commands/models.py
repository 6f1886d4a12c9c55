"""``plimsoll models``."""

from __future__ import annotations

import click

from plimsoll.adapters.catalog import catalogued_models
from plimsoll.cli.forms import text_of
from plimsoll.cli.options import output


@click.command("models")
@output("table", "json")
def command(form: str) -> None:
    """List the models that are known without any network."""
    if form == "json":
        click.echo(text_of(form, {"models": list(catalogued_models())}), nl=False)
        return
    for name in catalogued_models():
        click.echo(name)
