"""The history of one deployment's decisions: a few lines each, the newest first, and no line if nothing changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from plimsoll.api.bounds import MOST_CONCURRENCY
from plimsoll.api.v1alpha1.status import DecisionStatus, SizeOptionStatus, SizeStatus
from plimsoll.domain.engines.engine_choice import DEFAULT_ENGINE
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.placement.demands.pools import Decision, PlannedPool, Pool, active
from plimsoll.placement.explain import place_words
from plimsoll.placement.options.total_load import Size
from plimsoll.status.record.forms import Form, entries, listed, number, unless
from plimsoll.status.record.places import MOST_REPLICAS

MOST_DECISIONS = 10
"""The most decisions that a status keeps: a few hundred bytes each, so that thousands of objects stay readable."""

MOST_PLACES = 4
"""The most pools that one line names. The rest is only counted."""

_ID_DIGITS = 10


@dataclass(frozen=True, slots=True)
class DecisionNote:
    """One decision about the pools of a deployment.

    Two notes are equal if they say the same, whenever they were made: until the status is written, every pass makes
    the note anew.

    Attributes:
        id: names the decision, e.g. in a ticket. It follows from the object, the time and the change.
        at: RFC 3339.
        placed: the pools from then on, as text.
        replaced: the pools before, as text; empty if there was none.
        solver: what found the places; empty if nothing had to be placed.
        gap_permille: the part of the bill of all placements of that pass that a better plan might save at most; None
            if nothing was proven.
    """

    id: str = field(compare=False)
    at: str = field(compare=False)
    placed: str
    replaced: str = ""
    solver: str = ""
    gap_permille: int | None = None


@dataclass(frozen=True, slots=True)
class ChosenSize:
    """The size that was chosen for the spec with the digest ``spec``, and the sizes that were compared."""

    replicas: int
    concurrency: int
    spec: str
    options: tuple[Size, ...] = ()


DECISION = Form(DecisionNote, DecisionStatus, replaced=unless("replaced", ""), solver=unless("solver", ""))

SIZE = Form(
    ChosenSize,
    SizeStatus,
    replicas=number("replicas", 1, MOST_REPLICAS),
    concurrency=number("concurrency", 1, MOST_CONCURRENCY),
    options=entries("options", Form(Size, SizeOptionStatus, places=listed("places"), missing=unless("missing", 0))),
)


def remembered(
    earlier: Iterable[DecisionNote], key: ObjectKey, before: Sequence[Pool], decision: Decision, at: str
) -> tuple[DecisionNote, ...]:
    """Return the decisions to store. A decision that changes no pool is not added."""
    placed, replaced = _words(decision.pools), _words(before)
    if placed == replaced:
        return tuple(earlier)
    found = decision.appraisal if decision.placed_now else None
    gap = None if found is None or found.gap is None else round(found.gap * 1000)
    note = DecisionNote(
        id=sha256(f"{key}|{at}|{replaced}|{placed}".encode()).hexdigest()[:_ID_DIGITS],
        at=at,
        placed=placed,
        replaced=replaced,
        solver="" if found is None else found.solver,
        gap_permille=gap,
    )
    return (note, *earlier)[:MOST_DECISIONS]


def _words(pools: Iterable[Pool | PlannedPool]) -> str:
    """Return the active pools in words: ``2 on l4-24gb x 1``, and ``2 on l4-24gb x 1 with sglang``."""
    named = sorted(active(pools), key=lambda pool: pool.name)
    words = [f"{pool.replicas} on {place_words(*pool.place)}{_engine_words(pool)}" for pool in named[:MOST_PLACES]]
    more = [f"and {len(named) - MOST_PLACES} more"] if len(named) > MOST_PLACES else []
    return ", ".join([*words, *more])


def _engine_words(pool: Pool | PlannedPool) -> str:
    return "" if pool.engine == DEFAULT_ENGINE else f" with {pool.engine}"
