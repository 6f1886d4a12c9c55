"""Own prices from a file: the manifest of a ConfigMap, or a whole list in CSV."""

from __future__ import annotations

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.api.prices import parse_price_file
from plimsoll.cli.later import manifest_prices
from plimsoll.cli.reading.files import read_text, title
from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.errors import InvalidInput
from plimsoll.facts.prices.repricing import OwnPrices, repriced

_FIX = (
    "Name a ConfigMap manifest (GPU type and US dollars per hour as its data), or a list in CSV whose first line is "
    "gpu_type,capacity_type,usd_per_hour."
)


def priced_types(own: OwnPrices) -> list[GpuType]:
    """Return all GPU types with the prices in force."""
    return [repriced(gpu, own) for gpu in load_gpu_types()]


def read_prices(path: str | None, option: str) -> tuple[OwnPrices, tuple[str, ...]]:
    """Return the prices of a file, and a message for every entry that cannot be used; none of both without a file.

    Raises:
        InvalidInput: the file cannot be read, or holds neither a ConfigMap nor a list.
    """
    if path is None:
        return {}, ()
    text = read_text(path)
    if path.endswith(".csv") or _begins_like_a_list(text):
        return parse_price_file(text, title(path), load_gpu_types())
    found = manifest_prices(title(path), text, load_gpu_types())
    if found is None:
        raise InvalidInput(option, title(path), _FIX)
    return found


def _begins_like_a_list(text: str) -> bool:
    """Whether the first line that is no comment holds a comma and no colon, as only the header of a list does."""
    lines = (line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    first = next(lines, "")
    return "," in first and not any(mark in first for mark in ":{[")
