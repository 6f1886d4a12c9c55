"""Sentences for doubts about prices: one for each doubt, or one for each word with all cards that it concerns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import groupby
from types import MappingProxyType

from plimsoll.domain.cluster.gpus import Billing, CapacityType
from plimsoll.domain.public_words import PriceDoubt
from plimsoll.domain.units import counted, format_price
from plimsoll.facts.prices.remarks import PriceRemark

_NAMED = 6
"""How many cards a summary names."""

Figures = Mapping[str, int | str]


_PAID: Mapping[str, str] = {
    Billing.OWNED.value: "; placement counts half of it, because fleet.billing is owned",
    Billing.ASSUMED_OWNED.value: "; placement counts half of it, because nothing here is known to remove idle nodes",
}


def billing_words(billing: str | None) -> str:
    """Return what ``status.placement.billing`` means for a price, to follow it; empty if the whole price counts."""
    return _PAID.get(billing or "", "")


def remark_sentence(remark: PriceRemark) -> str:
    """Return the doubt as a sentence with its numbers and what to do."""
    return f"{_card(remark)}: {_SENTENCES[remark.doubt](dict(remark.numbers))}"


def remark_summaries(remarks: Iterable[PriceRemark]) -> tuple[str, ...]:
    """Return one sentence for each word: how many prices it concerns, and which. An empty list gives none."""
    return tuple(
        f"{doubt.value}: {_SUMMARIES[doubt]}: {_listed(list(group))}."
        for doubt, group in groupby(sorted(remarks, key=lambda each: each.doubt), key=lambda each: each.doubt)
    )


def _card(remark: PriceRemark) -> str:
    return remark.gpu_type if remark.capacity is CapacityType.ON_DEMAND else f"{remark.gpu_type} ({remark.capacity})"


def _listed(remarks: Sequence[PriceRemark]) -> str:
    named = [_card(remark) + _detail(remark) for remark in remarks[:_NAMED]]
    more = len(remarks) - len(named)
    return ", ".join(named) + (f" and {more} more (see `plimsoll prices`)" if more else "")


def _detail(remark: PriceRemark) -> str:
    figures = dict(remark.numbers)
    if remark.doubt is PriceDoubt.OLD_PRICE:
        return f" (newest offer {figures['newest']})"
    if remark.doubt is PriceDoubt.PRICES_UPSIDE_DOWN:
        return f" at {_usd(figures, 'usd')} below {figures['lesser']} at {_usd(figures, 'lesser_usd')}"
    return ""


def _usd(figures: Figures, name: str) -> str:
    return f"${format_price(Decimal(str(figures[name])))}/h"


def _thin(figures: Figures) -> str:
    voters = figures["voters"]
    rest = f"{voters} provider{'' if voters == 1 else 's'}"
    moved = ", and it was moved to keep the order of its family" if figures["clamped"] else ""
    return f"its price comes from {rest} only{moved}; write the price that you pay into a list of your own"


_SENTENCES: Mapping[PriceDoubt, Callable[[Figures], str]] = MappingProxyType(
    {
        PriceDoubt.THIN_PRICE: _thin,
        PriceDoubt.OLD_PRICE: lambda f: (
            f"its newest offer is of {f['newest']}, {counted(f['days'], 'day')} ago, and {f['limit_days']} is too old; "
            "take a newer list"
        ),
        PriceDoubt.PRICES_UPSIDE_DOWN: lambda f: (
            f"it costs {_usd(f, 'usd')} and is at least as good in everything as {f['lesser']}, which costs "
            f"{_usd(f, 'lesser_usd')}; check both prices"
        ),
        PriceDoubt.SPOT_COSTS_MORE: lambda f: (
            f"spot costs {_usd(f, 'usd')} and on demand {_usd(f, 'on_demand_usd')}; check whether they were exchanged"
        ),
    }
)

_SUMMARIES: Mapping[PriceDoubt, str] = MappingProxyType(
    {
        PriceDoubt.THIN_PRICE: "these prices come from one or two providers only",
        PriceDoubt.OLD_PRICE: "the newest offer behind these prices is too old",
        PriceDoubt.PRICES_UPSIDE_DOWN: "these cards cost less than lesser ones of their family",
        PriceDoubt.SPOT_COSTS_MORE: "spot costs more than on demand for these cards",
    }
)
