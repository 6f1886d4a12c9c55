"""``plimsoll prices`` and ``plimsoll prices check``: prices as a table and as data."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import click

from plimsoll.cli.listing import Listing, figure, name, prose
from plimsoll.cli.options import CommandGroup, option, output
from plimsoll.cli.prices.price_files import priced_types, read_prices
from plimsoll.cli.process import EXIT_BAD_INPUT, EXIT_PLACED, EXIT_UNPLACED, today
from plimsoll.cli.screen import print_document, print_listing, say, screen
from plimsoll.domain.cluster.gpus import CapacityType, GpuType, MarketOffers, Price
from plimsoll.domain.public_words import PriceDoubt
from plimsoll.domain.units import format_price
from plimsoll.facts.prices.remarks import OLDEST_DAYS, PriceRemark, remarks_on
from plimsoll.status.words.prices import remark_sentence, remark_summaries


@click.group("prices", cls=CommandGroup, invoke_without_command=True)
@option("--prices", note="They count before the catalogue's.")
@output("table", "json")
@click.pass_context
def command(context: click.Context, prices: str | None, form: str) -> None:
    """List the prices that count, with their sources, or check a price list of your own."""
    if context.invoked_subcommand is not None:
        return
    own, complaints = read_prices(prices, "--prices")
    if complaints:
        say("error", (f"{complaint}." for complaint in complaints))
        sys.exit(EXIT_BAD_INPUT)
    priced = [gpu for gpu in priced_types(own) if gpu.price is not None and not gpu.is_slice]
    _show(priced, form, complaints=(), details=False)


@command.command("check")
@click.argument("file")
@option("--strict")
@output("table", "json")
def check(file: str, strict: bool, form: str) -> None:  # noqa: FBT001 - a flag of the command line
    """Check a price list: a CSV file, or a ConfigMap manifest (- for standard input). Asks no network.

    Exit status: 0 every price can be used, 1 some entry cannot (with --strict: or there is a warning), 2 the file
    cannot be read.
    """
    own, complaints = read_prices(file, "FILE")
    priced = [gpu for gpu in priced_types(own) if own.get(gpu.name) is not None]
    warned = _show(priced, form, complaints=complaints, details=True)
    sys.exit(EXIT_UNPLACED if complaints or (strict and warned) else EXIT_PLACED)


def _show(priced: list[GpuType], form: str, *, complaints: tuple[str, ...], details: bool) -> bool:
    """Print prices, errors and warnings. Return whether there are warnings."""
    remarks = remarks_on(priced, today())
    if form == "json":
        document = {
            "prices": _price_documents(priced),
            "warnings": _remark_documents(remarks),
            "errors": list(complaints),
        }
        print_document(form, document)
        return bool(remarks)
    _print_prices(priced, remarks)
    say("error", (f"{complaint}." for complaint in complaints))
    if details:
        say("warning", (f"{remark.doubt.value}: {remark_sentence(remark)}." for remark in remarks))
        click.echo(
            f"GPU types with a price: {len(priced)}; errors: {len(complaints)}; warnings: {len(remarks)}. "
            f"A price is old after {OLDEST_DAYS} days.",
            err=True,
        )
    else:
        say("warning", remark_summaries(remarks))
    return bool(remarks)


_HEAD = (
    name("TYPE"),
    figure("ON DEMAND $/h"),
    figure("SPOT $/h"),
    figure("HYPERSCALERS $/h"),
    figure("OFFERS"),
    figure("VOTERS"),
    name("DATE"),
    prose("SOURCE"),
    prose("REMARKS"),
)

_WORDS = {
    PriceDoubt.THIN_PRICE: "thin",
    PriceDoubt.OLD_PRICE: "old",
    PriceDoubt.PRICES_UPSIDE_DOWN: "below a lesser card",
    PriceDoubt.SPOT_COSTS_MORE: "spot above on demand",
}


def _print_prices(priced: Sequence[GpuType], remarks: Iterable[PriceRemark]) -> None:
    """Print one line for each GPU type, the dearest first."""
    remarks = tuple(remarks)
    table = Listing(_HEAD)
    for gpu in sorted(priced, key=lambda each: (-_usd(each), each.name)):
        price = gpu.price
        if price is not None:
            spot = None if price.spot is None else price.spot.usd_per_hour
            listed = None if price.market is None else price.market.hyperscaler_usd
            figures = [_dollars(each) for each in (price.usd_per_hour, spot, listed)]
            table.add(gpu.name, *figures, *_evidence(price), _remarks(gpu, remarks))
    print_listing(screen(), table)


def _price_documents(priced: Iterable[GpuType]) -> list[dict[str, Any]]:
    """Return one document for each price: a type has one for each capacity type that it has a price for."""
    return [
        _document(gpu, capacity, price)
        for gpu in priced
        for capacity in CapacityType
        if (price := gpu.price_of(capacity)) is not None
    ]


def _remark_documents(remarks: Iterable[PriceRemark]) -> list[dict[str, Any]]:
    return [
        {
            "reason": remark.doubt.value,
            "gpuType": remark.gpu_type,
            "capacityType": remark.capacity.value,
            "numbers": dict(remark.numbers),
            "message": f"{remark_sentence(remark)}.",
        }
        for remark in remarks
    ]


def _dollars(usd: Decimal | None) -> str:
    return "-" if usd is None else format_price(usd)


def _usd(gpu: GpuType) -> float:
    return 0.0 if gpu.price is None else float(gpu.price.usd_per_hour)


def _evidence(price: Price) -> tuple[str, str, str, str]:
    """Return offers, voters, date and source, the figures of spot behind those on demand."""
    both = (price.market or MarketOffers(), (price.spot.market if price.spot is not None else None) or MarketOffers())
    offers = _pair(*(each.offers for each in both))
    voters = _pair(*(each.voters for each in both))
    newest = both[0].last
    source = price.source if price.market is None else price.source.partition(": ")[0]
    return offers, voters, "-" if newest is None else newest.isoformat(), source


def _pair(demand: int | None, spot: int | None) -> str:
    first = "-" if demand is None else str(demand)
    return first if spot is None else f"{first} + {spot}"


def _remarks(gpu: GpuType, remarks: Iterable[PriceRemark]) -> str:
    said = [
        _WORDS[each.doubt] + ("" if each.capacity is CapacityType.ON_DEMAND else f" ({each.capacity})")
        for each in remarks
        if each.gpu_type == gpu.name
    ]
    if gpu.price is not None and gpu.price.market is not None and gpu.price.market.is_clamped:
        said.append("clamped")
    return ", ".join(said)


def _document(gpu: GpuType, capacity: CapacityType, price: Price) -> dict[str, Any]:
    market = price.market or MarketOffers()
    return {
        "gpuType": gpu.name,
        "capacityType": capacity.value,
        "usdPerHour": str(price.usd_per_hour),
        "source": price.source,
        "origin": market.origin or None,
        "dateFrom": None if market.first is None else market.first.isoformat(),
        "dateTo": None if market.last is None else market.last.isoformat(),
        "offers": market.offers,
        "voters": market.voters,
        "thin": market.is_thin,
        "clamped": market.is_clamped,
        "basis": None if market.basis is None else market.basis.value,
        "hyperscalerUsdPerHour": None if market.hyperscaler_usd is None else str(market.hyperscaler_usd),
    }
