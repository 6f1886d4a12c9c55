"""``plimsoll prices`` and ``plimsoll prices check``."""

from __future__ import annotations

import json
import sys

import click

from plimsoll.cli.prices.price_files import read_prices
from plimsoll.cli.prices.price_tables import price_documents, print_prices, remark_documents
from plimsoll.cli.process import EXIT_BAD_INPUT, EXIT_PLACED, EXIT_UNPLACED, today
from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.facts.prices.remarks import OLDEST_DAYS, remarks_on
from plimsoll.status.price_words import remark_sentence, remark_summaries

_AS_DATA = click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table")


@click.group("prices", invoke_without_command=True)
@click.option("--prices", help="Own prices (a ConfigMap manifest or a list in CSV) over the catalogue's.")
@_AS_DATA
@click.pass_context
def command(context: click.Context, prices: str | None, output: str) -> None:
    """List the prices that count, with their sources, or check a price list of your own."""
    if context.invoked_subcommand is not None:
        return
    found = read_prices(prices, "--prices")
    if found.complaints:
        for complaint in found.complaints:
            click.echo(f"error: {complaint}.", err=True)
        sys.exit(EXIT_BAD_INPUT)
    priced = [gpu for gpu in found.types() if gpu.price is not None and not gpu.is_slice]
    _show(priced, output, complaints=(), details=False)


@command.command("check")
@click.argument("file")
@click.option("--strict", is_flag=True, help="Warnings fail, too.")
@_AS_DATA
def check(file: str, strict: bool, output: str) -> None:  # noqa: FBT001 - a flag of the command line
    """Check a price list: a CSV file, or a ConfigMap manifest (- for standard input). Asks no network.

    Exit status: 0 every price can be used, 1 some entry cannot (with --strict: or there is a warning), 2 the file
    cannot be read.
    """
    found = read_prices(file, "FILE")
    own = [gpu for gpu in found.types() if found.own.get(gpu.name) is not None]
    warned = _show(own, output, complaints=found.complaints, details=True)
    sys.exit(EXIT_UNPLACED if found.complaints or (strict and warned) else EXIT_PLACED)


def _show(priced: list[GpuType], output: str, *, complaints: tuple[str, ...], details: bool) -> bool:
    """Print prices, errors and warnings. Return whether there are warnings."""
    remarks = remarks_on(priced, today())
    if output == "json":
        document = {
            "prices": price_documents(priced),
            "warnings": remark_documents(remarks),
            "errors": list(complaints),
        }
        click.echo(json.dumps(document, indent=2))
        return bool(remarks)
    print_prices(priced, remarks)
    for complaint in complaints:
        click.echo(f"error: {complaint}.", err=True)
    if details:
        for remark in remarks:
            click.echo(f"warning: {remark.doubt.value}: {remark_sentence(remark)}.", err=True)
        click.echo(
            f"GPU types with a price: {len(priced)}; errors: {len(complaints)}; warnings: {len(remarks)}. "
            f"A price is old after {OLDEST_DAYS} days.",
            err=True,
        )
    else:
        for summary in remark_summaries(remarks):
            click.echo(f"warning: {summary}", err=True)
    return bool(remarks)
