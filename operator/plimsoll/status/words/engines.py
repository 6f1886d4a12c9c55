"""The engine that was chosen for a deployment, as the status has it: a word, a sentence, and the engines left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from plimsoll.domain.public_words import EngineReason
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import grouped
from plimsoll.engines.registry import ENGINES
from plimsoll.placement.explain import Figures, nearest_sentence
from plimsoll.placement.options.engine_offer import EngineOffer
from plimsoll.status.record.forms import Fields


def chosen_fields(offers: Sequence[EngineOffer], request: Request) -> Fields:
    """Return the fields of the entry. ``offers`` begins with the engine that is taken; ``request`` is for that."""
    first, *others = offers
    return {
        "name": first.engine,
        "version": str(request.engine.version),
        "reason": first.reason.value,
        "message": offer_sentence(first),
        "others": [_other_fields(each) for each in others] or None,
    }


def kept_offer(request: Request) -> EngineOffer:
    """Return the offer on the engine that runs already, and with which no other was compared."""
    return EngineOffer(request.engine.name, str(request.engine.version), EngineReason.ENGINE_KEPT)


def approved_offer(request: Request, before: str) -> EngineOffer:
    """Return the offer on an engine that takes over from the one ``before``, as people have approved."""
    return EngineOffer(request.engine.name, str(request.engine.version), EngineReason.APPROVED, (("other", before),))


def _other_fields(offer: EngineOffer) -> Fields:
    return {
        "name": offer.engine,
        "version": offer.release or None,
        "reason": offer.reason.value,
        "message": offer_sentence(offer),
        "places": list(offer.places) or None,
        "missing": offer.missing or None,
    }


def offer_sentence(offer: EngineOffer) -> str:
    """Return why an engine is taken or not, with the figures behind it."""
    figures: Figures = dict(offer.numbers) | {"missing": offer.missing, "nearest": nearest_sentence(offer.nearest)}
    return f"{title_of(offer.engine)} {_SENTENCES[offer.reason](figures)}"


def title_of(engine: str) -> str:
    """Return the name of an engine in sentences; its short name if it is not known here."""
    return ENGINES[engine].title if engine in ENGINES else engine


def _other(figures: Figures) -> str:
    return title_of(str(figures.get("other", "")))


def _million(figures: Figures) -> str:
    if "million" not in figures:
        return ""
    return f", and a million tokens ${figures['million']} against ${figures['other_million']}"


def _costs(figures: Figures) -> str:
    if "cost" not in figures:
        return ""
    hourly = f": ${figures['cost']} against ${figures['other_cost']} an hour, with what waiting is worth"
    return f"{hourly}{_million(figures)}"


def _listed(figures: Figures, order: str, alone: str) -> str:
    """Return how two engines stand in the user's list: ``order``, or ``alone`` if it names only one of them."""
    if figures.get("unlisted"):
        return f"{alone} in spec.engine.prefer, unlike {_other(figures)}"
    return f"{order} {_other(figures)} in spec.engine.prefer"


def _fits(figures: Figures) -> str:
    known = "fit" in figures and figures["fit"] != figures["other_fit"]
    return f": its fit is {figures['fit']}, the other's {figures['other_fit']}" if known else ""


def _more_cache(figures: Figures) -> str:
    return (
        f"holds {grouped(int(figures['tokens']))} tokens of KV cache on {figures['place']}, where {_other(figures)} "
        f"holds {grouped(int(figures['other_tokens']))} of the {grouped(int(figures['need_tokens']))} that are needed."
    )


_SENTENCES: dict[EngineReason, Callable[[Figures], str]] = {
    EngineReason.ONLY_ENGINE: lambda _: "is the only engine that takes the spec.",
    EngineReason.PREFERRED: lambda f: f"{_listed(f, 'comes before', 'is listed')}, and has a place.",
    EngineReason.MORE_CACHE: _more_cache,
    EngineReason.MORE_ROOM: lambda f: f"has a place for more of the replicas than {_other(f)}.",
    EngineReason.SURER_FIT: lambda f: f"is in less doubt than {_other(f)}{_fits(f)}.",
    EngineReason.LOWER_COST: lambda f: f"costs less than {_other(f)}{_costs(f)}.",
    EngineReason.FIRST_IN_ORDER: lambda f: f"is as good as {_other(f)}, and comes first.",
    EngineReason.ENGINE_KEPT: lambda _: "runs already. What runs is not moved to another engine by itself.",
    EngineReason.APPROVED: lambda f: f"takes over from {_other(f)}: the move to it was approved.",
    EngineReason.NO_PLACE: lambda _: "came nearest; no engine has a place now.",
    EngineReason.FIELD_REFUSED: lambda f: f"does not take {f['field']}: {f['value']}. {f['fix']}",
    EngineReason.NOTHING_FITS: lambda f: f"fits nowhere: {f['nearest']}." if f["nearest"] else "fits nowhere.",
    EngineReason.LESS_ROOM: lambda f: f"would leave {f['missing']} of the replicas without a place.",
    EngineReason.LESS_PREFERRED: lambda f: f"{_listed(f, 'comes after', 'is not listed')}.",
    EngineReason.LESS_SURE: lambda f: f"is in more doubt than {_other(f)}{_fits(f)}.",
    EngineReason.HIGHER_COST: lambda f: f"costs more than {_other(f)}{_costs(f)}.",
    EngineReason.LATER_IN_ORDER: lambda f: f"is as good as {_other(f)}, and comes later.",
}
