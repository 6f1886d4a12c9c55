"""``plimsoll models``."""

from __future__ import annotations

import click

from plimsoll.adapters.catalog import catalogued_models
from plimsoll.cli.options import output
from plimsoll.cli.screen import print_document


@click.command("models")
@output("table", "json")
def command(form: str) -> None:
    """List the models that are known without any network."""
    if form == "json":
        print_document(form, {"models": list(catalogued_models())})
        return
    for name in catalogued_models():
        click.echo(name)
