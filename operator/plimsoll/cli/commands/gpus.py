"""``plimsoll gpus``."""

from __future__ import annotations

import click

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.cli.listing import Listing, figure, name, prose
from plimsoll.cli.screen import print_listing, screen
from plimsoll.domain.units import GIB


@click.command("gpus")
def command() -> None:
    """List the GPU types that manifests and prices can name."""
    columns = name("TYPE"), figure("USABLE GiB"), prose("NODE LABEL"), figure("$/h"), prose("PRICE FROM")
    table = Listing(columns)
    for gpu in load_gpu_types():
        price = ("-", "-") if gpu.price is None else (f"{gpu.price.usd_per_hour:.2f}", gpu.price.source)
        table.add(gpu.name, f"{gpu.usable_bytes / GIB:.2f}", ", ".join(gpu.product_labels), *price)
    print_listing(screen(), table)
