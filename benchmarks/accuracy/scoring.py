"""One prediction against one measurement: errors, verdicts, bands; and which cases a figure is taken over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from benchmarks.accuracy.cases import Case, Measured, Outcome
from benchmarks.accuracy.prediction import Prediction, Verdict
from benchmarks.accuracy.setups import Setup

TIGHT_CONCURRENCY = 2.0
"""A start is a tight fit where the cache holds fewer longest requests than this ..."""

TIGHT_SHARE = 0.05
"""... or less than this share of the card."""

BAND_TARGET_GIB, BAND_TARGET_SHARE = 1.0, 0.015
"""The width of a band that is worth something: 1 GiB and 1.5 % of the card."""

_SAME_FIGURE = 0.02
"""How far tokens may be from concurrency x length to be the same figure twice."""


class Measure(StrEnum):
    """The columns of errors."""

    WEIGHTS = "weights GiB"
    WEIGHTS_SHARE = "weights %"
    KV = "KV GiB"
    TOKENS = "KV tokens %"
    CONCURRENCY = "max concurrency %"


@dataclass(frozen=True, slots=True)
class Scored:
    """A case with its inputs, and whether the constants of the law were open to it."""

    case: Case
    setup: Setup
    held_out: bool

    @property
    def is_tight(self) -> bool:
        """Whether the engine started with little room to spare."""
        measured = self.case.measured
        if measured.outcome is not Outcome.OK:
            return False
        few = measured.concurrency is not None and measured.concurrency < TIGHT_CONCURRENCY
        small = measured.kv_gib is not None and measured.kv_gib < TIGHT_SHARE * self.setup.total_gib
        return few or small

    @property
    def has_known_flags(self) -> bool:
        """Whether nothing was assumed."""
        return not self.setup.assumed

    @property
    def has_known_length(self) -> bool:
        """Whether tokens and concurrency mean something: both hang on the length of a request."""
        return "max_model_len" not in self.setup.assumed


Pick = Callable[[Scored], bool]


def errors(scored: Iterable[Scored], predictions: Sequence[Prediction], measure: Measure) -> list[float]:
    """Signed errors of the cases that have both a prediction and a measured value."""
    pairs = zip(scored, predictions, strict=True)
    return [found for each, prediction in pairs if (found := error(each, prediction, measure)) is not None]


def error(scored: Scored, prediction: Prediction, measure: Measure) -> float | None:
    """Predicted less measured: in GiB for memory, in per cent of the measured value for tokens and concurrency."""
    measured = scored.case.measured
    match measure:
        case Measure.WEIGHTS:
            return _difference(prediction.weights_gib, measured.weights_gib)
        case Measure.WEIGHTS_SHARE:
            return _per_cent(prediction.weights_gib, measured.weights_gib)
        case Measure.KV:
            return _difference(prediction.kv_gib, measured.kv_gib)
        case Measure.TOKENS:
            tokens = comparable_tokens(measured, scored.case.max_model_len)
            return _per_cent(prediction.kv_tokens, tokens) if scored.has_known_length else None
        case Measure.CONCURRENCY:
            return _per_cent(prediction.concurrency, measured.concurrency) if scored.has_known_length else None


def comparable_tokens(measured: Measured, length: int | None) -> float | None:
    """The printed token count where it is the capacity for requests.

    For models with windows or states, older releases (0.19 still) print blocks x block size over all groups, which no
    request ever sees; there the count disagrees with the concurrency on the next line, and the concurrency is compared.
    """
    if measured.kv_tokens is None or measured.concurrency is None or length is None:
        return measured.kv_tokens
    by_concurrency = measured.concurrency * length
    slack = _SAME_FIGURE * measured.kv_tokens + 0.005 * length
    return measured.kv_tokens if abs(by_concurrency - measured.kv_tokens) <= slack else None


@dataclass(frozen=True, slots=True)
class Bands:
    """How a predictor's own band stood up, over the cases with a measured KV cache and a band."""

    inside: int
    count: int
    widths: tuple[float, ...]
    narrow: int

    @property
    def share(self) -> float:
        """Measured values inside their band."""
        return self.inside / self.count


def bands(scored: Sequence[Scored], predictions: Sequence[Prediction]) -> Bands | None:
    """The bands of the KV cache in GiB; None where the predictor states none."""
    inside, narrow, widths = 0, 0, []
    for each, prediction in zip(scored, predictions, strict=True):
        low, high, measured = prediction.kv_low_gib, prediction.kv_high_gib, each.case.measured.kv_gib
        if low is None or high is None or measured is None:
            continue
        inside += low - 0.005 <= measured <= high + 0.005  # the log prints two digits
        narrow += high - low <= BAND_TARGET_GIB + BAND_TARGET_SHARE * each.setup.total_gib
        widths.append(high - low)
    return Bands(inside, len(widths), tuple(sorted(widths)), narrow) if widths else None


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What was said of a set of cases."""

    sure: int
    probable: int
    no: int

    @property
    def count(self) -> int:
        """Cases with a verdict."""
        return self.sure + self.probable + self.no


def verdicts(scored: Sequence[Scored], predictions: Sequence[Prediction], pick: Pick) -> Verdicts:
    """The verdicts on the cases that ``pick`` takes."""
    said = [prediction.verdict for each, prediction in zip(scored, predictions, strict=True) if pick(each)]
    return Verdicts(said.count(Verdict.SURE), said.count(Verdict.PROBABLE), said.count(Verdict.NO))


def _difference(predicted: float | None, measured: float | None) -> float | None:
    return None if predicted is None or measured is None else predicted - measured


def _per_cent(predicted: float | None, measured: float | None) -> float | None:
    return None if predicted is None or not measured else 100 * (predicted - measured) / measured
