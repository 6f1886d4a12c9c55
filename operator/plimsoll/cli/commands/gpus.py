"""``plimsoll gpus``."""

from __future__ import annotations

from typing import Any

import click

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.cli.listing import Listing, figure, name, prose
from plimsoll.cli.options import output
from plimsoll.cli.screen import print_document, print_listing, screen
from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.units import GIB, format_price


@click.command("gpus")
@output("table", "json")
def command(form: str) -> None:
    """List the GPU types that manifests and prices can name."""
    if form == "json":
        print_document(form, {"gpuTypes": [_document(gpu) for gpu in load_gpu_types()]})
        return
    columns = name("TYPE"), figure("USABLE GiB"), prose("NODE LABEL"), figure("$/h"), prose("PRICE FROM")
    table = Listing(columns)
    for gpu in load_gpu_types():
        price = ("-", "-") if gpu.price is None else (f"{gpu.price.usd_per_hour:.2f}", gpu.price.source)
        table.add(gpu.name, f"{gpu.usable_bytes / GIB:.2f}", ", ".join(gpu.product_labels), *price)
    print_listing(screen(), table)


def _document(gpu: GpuType) -> dict[str, Any]:
    """Return a type as data; the price is in US dollars an hour, as text, and null if none is known."""
    price = gpu.price
    return {
        "gpuType": gpu.name,
        "usableBytes": gpu.usable_bytes,
        "nodeLabels": list(gpu.product_labels),
        "usdPerHour": None if price is None else format_price(price.usd_per_hour),
        "priceSource": None if price is None else price.source,
    }
