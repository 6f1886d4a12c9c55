"""Sentences about doubtful prices: each has its numbers, and a summary names the cards once."""

from __future__ import annotations

import pytest

from plimsoll.domain.cluster.gpus import CapacityType
from plimsoll.domain.public_words import Numbers, PriceDoubt
from plimsoll.facts.prices.remarks import PriceRemark
from plimsoll.status.words.prices import billing_words, remark_sentence, remark_summaries

OLD: Numbers = (("days", 130), ("limit_days", 120), ("newest", "2026-07-15"))
UPSIDE: Numbers = (("usd", "3.5"), ("lesser", "h100-sxm-80gb"), ("lesser_usd", "4.125"))


def remark(doubt: PriceDoubt, numbers: Numbers, name: str = "l4-24gb", *, spot: bool = False) -> PriceRemark:
    return PriceRemark(doubt, name, CapacityType.SPOT if spot else CapacityType.ON_DEMAND, numbers)


def thin(name: str = "l4-24gb", *, spot: bool = False) -> PriceRemark:
    return remark(PriceDoubt.THIN_PRICE, (("voters", 2), ("clamped", 0)), name, spot=spot)


@pytest.mark.parametrize(
    ("doubt", "numbers", "said"),
    [
        (
            PriceDoubt.THIN_PRICE,
            (("voters", 1), ("clamped", 1)),
            (
                "its price comes from 1 provider only, and it was moved to keep the order of its family; "
                "write the price that you pay into a list of your own"
            ),
        ),
        (
            PriceDoubt.THIN_PRICE,
            (("voters", 2), ("clamped", 0)),
            "its price comes from 2 providers only; write the price that you pay into a list of your own",
        ),
        (
            PriceDoubt.OLD_PRICE,
            OLD,
            "its newest offer is of 2026-07-15, 130 days ago, and 120 is too old; take a newer list",
        ),
        (
            PriceDoubt.PRICES_UPSIDE_DOWN,
            UPSIDE,
            (
                "it costs $3.50/h and is at least as good in everything as h100-sxm-80gb, which costs $4.12/h; "
                "check both prices"
            ),
        ),
        (
            PriceDoubt.SPOT_COSTS_MORE,
            (("usd", "2"), ("on_demand_usd", "1")),
            "spot costs $2.00/h and on demand $1.00/h; check whether they were exchanged",
        ),
    ],
)
def test_a_sentence_has_the_numbers_and_the_fix(doubt: PriceDoubt, numbers: Numbers, said: str) -> None:
    assert remark_sentence(remark(doubt, numbers)) == f"l4-24gb: {said}"
    assert remark_sentence(remark(doubt, numbers, spot=True)) == f"l4-24gb (spot): {said}"


def test_a_summary_has_one_sentence_for_each_word() -> None:
    remarks = [thin(), remark(PriceDoubt.OLD_PRICE, OLD), thin("t4-16gb", spot=True)]
    remarks.append(remark(PriceDoubt.PRICES_UPSIDE_DOWN, UPSIDE, "h200-sxm-141gb"))
    assert remark_summaries(remarks) == (
        "OldPrice: the newest offer behind these prices is too old: l4-24gb (newest offer 2026-07-15).",
        (
            "PricesUpsideDown: these cards cost less than lesser ones of their family: "
            "h200-sxm-141gb at $3.50/h below h100-sxm-80gb at $4.12/h."
        ),
        "ThinPrice: these prices come from one or two providers only: l4-24gb, t4-16gb (spot).",
    )
    assert remark_summaries([]) == ()


def test_a_summary_of_many_names_six_and_counts_the_rest() -> None:
    (said,) = remark_summaries(thin(f"card-{number}") for number in range(8))
    assert said.endswith("card-5 and 2 more (see `plimsoll prices`).")


@pytest.mark.parametrize(
    ("billing", "words"),
    [
        ("Owned", "; placement counts half of it, because fleet.billing is owned"),
        ("AssumedOwned", "; placement counts half of it, because nothing here is known to remove idle nodes"),
        ("OnDemand", ""),
        ("", ""),
        (None, ""),
    ],
)
def test_a_price_of_which_half_counts_is_said_so(billing: str | None, words: str) -> None:
    assert billing_words(billing) == words
