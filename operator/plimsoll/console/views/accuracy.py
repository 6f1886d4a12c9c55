"""May the figures be trusted? Predicted against reported KV cache, by model and GPU type.

An error is that of the live loop: predicted over reported, less one. Above 0 more was promised than the engine has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from plimsoll.console.views.rows import DeploymentRow, ObservedRow, PoolRow, ProvedTooSmall
from plimsoll.console.views.sorting import SortColumn
from plimsoll.console.views.words import UNKNOWN, count, gib, split_words
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.rebalance.law.learning import CapacityReading, error_percent_text

CLOSE_PERMILLE = 50
"""An error of 5 %, up to which a figure counts as close."""


class Measure(StrEnum):
    """The figures that are compared."""

    TOKENS = "KV tokens of a replica"
    """The prediction that the placement used, with what earlier starts had taught."""
    BYTES = "KV bytes of a GPU"
    """The prediction of the law alone, without what earlier starts had taught."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A prediction and what the engine reported of it. ``permille`` is None if it reported nothing to compare."""

    deployment: ObjectKey
    model: str
    gpu_type: str
    split: str
    measure: Measure
    predicted: int
    reported: int | None

    @property
    def permille(self) -> int | None:
        """The error in thousandths of the reported figure; above 0 too much was promised."""
        return None if self.reported is None else CapacityReading(self.predicted, self.reported).error_permille

    @property
    def error(self) -> str:
        """The error as text."""
        return UNKNOWN if self.permille is None else error_percent_text(self.permille)

    @property
    def figures(self) -> str:
        """Both figures as text."""
        if self.measure is Measure.TOKENS:
            return f"{count(self.predicted)} predicted, {count(self.reported)} reported"
        reported = "the engine ran out of memory" if self.reported is None else f"{gib(self.reported)} GiB reported"
        return f"{gib(self.predicted)} GiB predicted, {reported}"


@dataclass(frozen=True, slots=True)
class AccuracyGroup:
    """All comparisons of one model on one GPU type by one measure. Errors are in thousandths."""

    model: str
    gpu_type: str
    measure: Measure
    comparisons: tuple[Comparison, ...]

    @property
    def errors(self) -> tuple[int, ...]:
        """The known errors, the smallest first."""
        return tuple(sorted(each.permille for each in self.comparisons if each.permille is not None))

    @property
    def median(self) -> str:
        """The median error as text; of two middle ones the one that is further from 0."""
        if not self.errors:
            return UNKNOWN
        middle = {self.errors[(len(self.errors) - 1) // 2], self.errors[len(self.errors) // 2]}
        return error_percent_text(max(middle, key=abs))

    @property
    def worst(self) -> Comparison | None:
        """The comparison with the largest error in either direction."""
        return max((each for each in self.comparisons if each.permille is not None), key=_distance, default=None)

    @property
    def largest(self) -> int | None:
        """How far the worst error is from 0, in thousandths; None if no error is known."""
        return None if self.worst is None else _distance(self.worst)

    @property
    def too_small(self) -> tuple[Comparison, ...]:
        """The starts that ran out of memory: the engine got no KV cache at all."""
        return tuple(each for each in self.comparisons if each.reported is None)

    @property
    def is_off(self) -> bool:
        """Whether more was promised than an engine has, by more than a close error."""
        return bool(self.too_small) or any(error > CLOSE_PERMILLE for error in self.errors)


SORTS: tuple[SortColumn[AccuracyGroup], ...] = (
    SortColumn("model", "Model", lambda group: group.model),
    SortColumn("gpu", "GPU type", lambda group: group.gpu_type),
    SortColumn("count", "Count", lambda group: len(group.comparisons), is_falling=True),
    SortColumn(
        "worst", "Worst", lambda group: None if group.worst is None else _distance(group.worst), is_falling=True
    ),
)
"""The columns that the groups can be sorted by. They come worst first."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The whole view. ``answer`` is one sentence for "may I trust the figures?".

    ``too_small`` are places that proved too small, with their deployments.
    """

    answer: str
    is_trusted: bool | None
    groups: tuple[AccuracyGroup, ...]
    too_small: tuple[tuple[ObjectKey, ProvedTooSmall], ...]


def accuracy_of(rows: Iterable[DeploymentRow]) -> Accuracy:
    """Return the view of the deployments that a person sees, the worst groups first."""
    some = list(rows)
    groups = sorted(_groups([each for row in some for each in _comparisons(row)]), key=_worst_first)
    small = tuple((row.key, each) for row in some for each in row.too_small)
    return Accuracy(*_answer(groups, small), tuple(groups), small)


def _comparisons(row: DeploymentRow) -> Iterator[Comparison]:
    yield from (found for pool in row.pools if (found := _of_pool(row, pool)) is not None)
    yield from (_of_start(row, seen) for seen in row.observed)


def _of_pool(row: DeploymentRow, pool: PoolRow) -> Comparison | None:
    """Return a pool's comparison; None while its engines report nothing."""
    predicted, reported = pool.kv_tokens_predicted, pool.kv_tokens_reported
    if predicted is None or reported is None or reported <= 0:
        return None
    split = split_words(pool.split)
    return Comparison(row.key, row.model, pool.gpu_type, split, Measure.TOKENS, predicted, reported)


def _of_start(row: DeploymentRow, seen: ObservedRow) -> Comparison:
    """Return a start's comparison. An engine that reports no memory is one that ran out of it."""
    reported = seen.available_kv_bytes
    return Comparison(
        row.key,
        seen.model,
        seen.gpu_type,
        split_words(seen.split),
        Measure.BYTES,
        seen.predicted_kv_bytes,
        reported if reported is not None and reported > 0 else None,
    )


def _kind(each: Comparison) -> tuple[str, str, Measure]:
    return (each.model, each.gpu_type, each.measure)


def _groups(comparisons: Sequence[Comparison]) -> Iterator[AccuracyGroup]:
    for kind, some in groupby(sorted(comparisons, key=lambda each: (_kind(each), each.deployment)), key=_kind):
        yield AccuracyGroup(*kind, tuple(some))


def _distance(each: Comparison) -> int:
    return abs(each.permille or 0)


def _worst_first(group: AccuracyGroup) -> tuple[int, int, tuple[str, str, Measure]]:
    return (-len(group.too_small), -(group.largest or 0), (group.model, group.gpu_type, group.measure))


def _answer(groups: Sequence[AccuracyGroup], small: Sequence[object]) -> tuple[str, bool | None]:
    """Answer in one sentence and in one word, from the figures that the placement used, if there are any."""
    if not groups and not small:
        return "Nobody can say yet: no engine has reported its KV cache.", None
    compared = [each for group in groups for each in group.comparisons if each.permille is not None]
    failed = len(small) + sum(len(group.too_small) for group in groups)
    if not compared:
        return f"No: {_placements(failed)} proved too small, and no engine has reported its KV cache.", False
    worst = max(compared, key=_distance)
    extent = f"the largest of {count(len(compared))} known errors is {worst.error} ({worst.model} on {worst.gpu_type})"
    if failed:
        return f"Not everywhere: {_placements(failed)} proved too small; {extent}.", False
    if any(group.is_off for group in groups):
        kinds = sum(group.is_off for group in groups)
        return f"Not everywhere: over 5 % too much was promised in {kinds} of {len(groups)} groups; {extent}.", False
    return f"Yes: nothing proved too small, and {extent}.", True


def _placements(number: int) -> str:
    return "one placement" if number == 1 else f"{count(number)} placements"
