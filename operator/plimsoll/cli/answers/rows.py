"""The answers of ``plimsoll estimate`` in the order of a reader: what fits first, the cheapest of it first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.domain.gpus import GpuType
from plimsoll.domain.latency import Performance
from plimsoll.domain.outcomes import Fit, Rejection
from plimsoll.domain.serving import Request
from plimsoll.engines.registry import engine_of
from plimsoll.placement.feasibility import hourly_price
from plimsoll.placement.preference import NO_PRICE, Preference, preference
from plimsoll.placement.sizing import Sized
from plimsoll.placement.speed import missed, speed_of

_ORDER = (Fit.SURE, Fit.PROBABLE, Fit.NO)


@dataclass(frozen=True, slots=True)
class Row:
    """One answer with US dollars an hour for one replica, and the replica's speed at the declared load.

    ``price`` is None where the type has no price, or where no engine would start. ``speed`` is None where it does not
    fit, or where the performance model does not cover it.
    """

    gpu: GpuType
    answer: Sized | Rejection
    price: Decimal | None
    speed: Performance | None

    @property
    def fit(self) -> Fit:
        """How well it fits; a rejection does not."""
        return self.answer.figures.fit if isinstance(self.answer, Sized) else Fit.NO

    def keeps(self, request: Request) -> bool:
        """Whether placement would take it: no price above the limit, and no slower than promised."""
        limit = request.constraints.max_hourly_price
        if limit is not None and (self.price is None or self.price > limit):
            return False
        return request.slo is None or not missed(request.slo, self.speed)


def rows_of(request: Request, answers: Iterable[Sized | Rejection]) -> tuple[Row, ...]:
    """Return the answers in order.

    What fits for sure is first, what fits probably second: by price, types without one last, as placement prefers them.
    What does not fit follows, the nearest first, and then types without any estimate, by name.
    """
    types = {gpu.name: gpu for gpu in load_gpu_types()}
    rows = [_row(request, types, answer) for answer in answers]
    return tuple(sorted(rows, key=_key))


def _row(request: Request, types: Mapping[str, GpuType], answer: Sized | Rejection) -> Row:
    if isinstance(answer, Rejection):
        return Row(types[answer.gpu_type], answer, None, None)
    gpu, split = answer.gpu, answer.split
    served = engine_of(request.engine.name).served_on(request, gpu)
    speed = None if answer.figures.fit is Fit.NO else speed_of(served, gpu, split, answer.settings)
    return Row(gpu, answer, hourly_price(gpu, split), speed)


def _key(row: Row) -> tuple[int, int, Preference]:
    """Return the place of the fit, the bytes that are missing where it does not fit, and the preference."""
    if isinstance(row.answer, Rejection):
        return len(_ORDER), 0, (NO_PRICE, 0, 0, 0, row.gpu.name)
    figures = row.answer.figures
    missing = figures.needed_bytes - figures.budget_bytes if row.fit is Fit.NO else 0
    return _ORDER.index(row.fit), missing, preference(row.gpu, row.answer.split, row.price)
