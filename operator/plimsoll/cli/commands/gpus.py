"""``plimsoll gpus``."""

from __future__ import annotations

import click
from rich.table import Table

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.cli.screen import screen
from plimsoll.domain.units import GIB


@click.command("gpus")
def command() -> None:
    """List the GPU types that manifests and prices can name."""
    table = Table("TYPE", "USABLE GiB", "NODE LABEL", "$/h", "PRICE FROM", box=None)
    for gpu in load_gpu_types():
        price = ("-", "-") if gpu.price is None else (f"{gpu.price.usd_per_hour:.2f}", gpu.price.source)
        table.add_row(gpu.name, f"{gpu.usable_bytes / GIB:.2f}", ", ".join(gpu.product_labels), *price)
    screen().print(table)
