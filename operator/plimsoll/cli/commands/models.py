"""``plimsoll models``."""

from __future__ import annotations

import click

from plimsoll.adapters.catalog import catalogued_models


@click.command("models")
def command() -> None:
    """List the models that are known without any network."""
    for name in catalogued_models():
        click.echo(name)
