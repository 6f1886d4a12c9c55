"""A replay of what a deployment served, from the document of ``plimsoll simulate --from-prometheus``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from plimsoll.console.views.words import UNKNOWN

SPANS = (("1h", "1 hour"), ("6h", "6 hours"), ("24h", "1 day"), ("7d", "7 days"))
"""The spans that the page offers. A terminal takes any."""

_MILLISECONDS = 1000


@dataclass(frozen=True, slots=True)
class LawLine:
    """One law of the table, in words."""

    law: str
    goodput: str
    errors: str
    gpu_hours: str
    usd: str
    changes: str
    flips: str
    replicas: str
    ttft: str


@dataclass(frozen=True, slots=True)
class ReplayAnswer:
    """The answer: its first sentence, what was replayed, a line for each law, and notes."""

    summary: str
    asked: str
    lines: tuple[LawLine, ...]
    notes: tuple[str, ...]


def answer_of(document: Mapping[str, Any]) -> ReplayAnswer:
    """Return the answer of a document."""
    asked = document["input"]
    ttft, tpot = (f"{_MILLISECONDS * asked[each]:,.0f} ms" for each in ("ttft_seconds", "tpot_seconds"))
    return ReplayAnswer(
        document["summary"],
        f"{asked['requests']:,} requests since {asked['begin']}; {asked['known_percent']:g} % of the time is known. "
        f"{asked['model']} on {asked['gpus_per_replica']} x {asked['gpu']}, {asked['min_replicas']} to "
        f"{asked['max_replicas']} replicas, {asked['startup_seconds']:g} s to start one. Goodput: the first token "
        f"within {ttft}, and each later one within {tpot} on average.",
        tuple(map(_line, document["laws"])),
        tuple(document["notes"]),
    )


def _line(law: Mapping[str, Any]) -> LawLine:
    usd, ttft = law["usd"], law["ttft_p95_seconds"]
    return LawLine(
        law["law"],
        f"{law['goodput']:.1f} %",
        f"{law['errors']:.1f} %",
        f"{law['gpu_hours']:,.1f}",
        UNKNOWN if usd is None else f"{usd:,.2f}",
        f"{law['changes']:,}",
        f"{law['flips']:,}",
        f"{law['fewest']}-{law['most']}" if law["fewest"] < law["most"] else f"{law['most']}",
        UNKNOWN if ttft is None else f"{ttft * _MILLISECONDS:,.0f}",
    )
