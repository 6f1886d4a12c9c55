"""The one table: a row for every figure, a column for every predictor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.accuracy.cases import Outcome
from benchmarks.accuracy.hardware import hardware_of
from benchmarks.accuracy.loading import Loaded
from benchmarks.accuracy.prediction import Prediction
from benchmarks.accuracy.predictors import Column
from benchmarks.accuracy.scoring import Bands, Measure, Pick, Scored, bands, error, verdicts
from benchmarks.accuracy.setups import GPU_TYPE
from benchmarks.accuracy.statistics import quantile, summarize
from plimsoll.domain.units import GIB

NO_ANSWER = "no answer"
EXACT_PER_CENT = 0.01
"""Weights that are no further apart are the same tensors."""
_DIGITS = {Measure.WEIGHTS: 2, Measure.WEIGHTS_SHARE: 2, Measure.KV: 2, Measure.TOKENS: 1, Measure.CONCURRENCY: 1}


@dataclass(frozen=True, slots=True)
class TableRow:
    """A label, how many cases it is over, and one cell a predictor; a heading has no cells."""

    label: str
    count: int | None = None
    cells: tuple[str, ...] = ()


def table_rows(loaded: Loaded, columns: Sequence[Column]) -> Iterator[TableRow]:
    """All rows, top to bottom."""
    view = _View(loaded.scored, columns)
    yield TableRow("error: median / p90 / worst with its sign (cases)")
    for measure in Measure:
        yield view.errors(str(measure), measure, _everything)
    yield TableRow("error in % where no flag is assumed")
    for label, measure, pick in _CERTAIN:
        yield view.errors(label, measure, pick)
    yield TableRow("error of KV GiB over a part of the cases")
    for label, pick in _PARTS:
        yield view.errors(label, Measure.KV, pick)
    yield TableRow("error of KV GiB by architecture family")
    for family in view.families():
        yield view.errors(family, Measure.KV, _of_family(family))
    yield TableRow("verdicts: sure, probable, no")
    for label, pick in _VERDICTS:
        yield view.verdicts(label, pick)
    yield TableRow("band that the predictor states for KV GiB")
    yield from view.bands()
    yield TableRow("band by class of hardware: inside; width in GiB: median / p90 / worst")
    for name in view.hardware():
        yield view.band(name, _of_hardware(name))
    yield TableRow("band by what is known of the flags: inside; width in GiB: median / p90 / worst")
    for label, pick in _BY_FLAGS:
        yield view.band(label, pick)
    yield TableRow("share of the starts that ran: sure, probable, no")
    for label, pick in _RAN:
        yield view.shares(label, pick)
    yield TableRow("weights of one rank against the engine's own modules, without a GPU")
    yield from _oracle_rows(loaded, columns)


def markdown(rows: Sequence[TableRow], columns: Sequence[Column]) -> str:
    """The table in Markdown."""
    lines = [
        _line(["", "cases", *(column.name for column in columns)]),
        _line(["---", "---:", *("---",) * len(columns)]),
    ]
    for row in rows:
        if not row.cells:
            lines.append(_line([f"**{row.label}**", "", *("",) * len(columns)]))
        else:
            lines.append(_line([row.label, "" if row.count is None else str(row.count), *row.cells]))
    return "\n".join(lines)


def _everything(_: Scored) -> bool:
    return True


def _of_family(family: str) -> Pick:
    return lambda each: each.setup.family == family


def _of_hardware(name: str) -> Pick:
    return lambda each: hardware_of(each.setup.gpu) == name


def _failed(each: Scored) -> bool:
    return each.case.measured.outcome.is_memory_failure


def _ran(each: Scored) -> bool:
    return each.case.measured.outcome is Outcome.OK


_PARTS: tuple[tuple[str, Pick], ...] = (
    ("known flags", lambda each: each.has_known_flags),
    ("assumed flags", lambda each: not each.has_known_flags),
    ("held out from the fit", lambda each: each.held_out),
    ("open to the fit", lambda each: not each.held_out),
    ("tight fits", lambda each: each.is_tight),
    ("failures", _failed),
)
_CERTAIN: tuple[tuple[str, Measure, Pick], ...] = (
    ("runs of one sweep: weights", Measure.WEIGHTS_SHARE, lambda each: each.case.dataset == "runs"),
    ("runs of one sweep: KV tokens", Measure.TOKENS, lambda each: each.case.dataset == "runs"),
    ("logs: weights", Measure.WEIGHTS_SHARE, lambda each: each.case.dataset == "logs" and each.has_known_flags),
    ("logs: KV tokens", Measure.TOKENS, lambda each: each.case.dataset == "logs" and each.has_known_flags),
)
_VERDICTS: tuple[tuple[str, Pick], ...] = (
    ("failed for want of memory: *sure* is a false fit", _failed),
    ("of these, with known flags", lambda each: _failed(each) and each.has_known_flags),
    ("tight fits: *no* is a false refusal", lambda each: each.is_tight),
    ("other starts that ran: *no* is a false refusal", lambda each: _ran(each) and not each.is_tight),
    ("failed for another or an unknown cause (not judged)", lambda each: each.case.measured.outcome is Outcome.FAILED),
)

_BY_FLAGS: tuple[tuple[str, Pick], ...] = (
    ("known flags", lambda each: each.has_known_flags),
    ("assumed flags", lambda each: not each.has_known_flags),
    ("of these, the card's type too", lambda each: GPU_TYPE in each.setup.assumed),
)
_RAN: tuple[tuple[str, Pick], ...] = (
    ("all", _ran),
    ("known flags", lambda each: _ran(each) and each.has_known_flags),
    ("assumed flags", lambda each: _ran(each) and not each.has_known_flags),
    ("held out from the fit", lambda each: _ran(each) and each.held_out),
    ("tight fits", lambda each: each.is_tight),
)


class _View:
    """The scored cases and every predictor's answers to them."""

    def __init__(self, scored: Sequence[Scored], columns: Sequence[Column]) -> None:
        self._scored = scored
        self._columns = columns

    def families(self) -> list[str]:
        """Families with a measured KV cache, the most frequent first."""
        found = Counter(each.setup.family for each in self._scored if each.case.measured.kv_gib is not None)
        return [family for family, _ in sorted(found.items(), key=lambda item: (-item[1], item[0]))]

    def hardware(self) -> list[str]:
        """Classes of hardware with a measured KV cache, the most frequent first."""
        measured = [each for each in self._scored if each.case.measured.kv_gib is not None]
        found = Counter(hardware_of(each.setup.gpu) for each in measured)
        return [name for name, _ in sorted(found.items(), key=lambda item: (-item[1], item[0]))]

    def errors(self, label: str, measure: Measure, pick: Pick) -> TableRow:
        """Errors of one measure over some cases."""
        picked = [each for each in self._scored if pick(each)]
        ideal = sum(error(each, _measured_again(each), measure) is not None for each in picked)
        return TableRow(label, ideal, self._cells(lambda cases: self._error_cell(cases, measure, pick)))

    def verdicts(self, label: str, pick: Pick) -> TableRow:
        """Verdicts over some cases."""
        count = sum(pick(each) for each in self._scored)
        return TableRow(label, count, self._cells(lambda cases: self._verdict_cell(cases, pick)))

    def band(self, label: str, pick: Pick) -> TableRow:
        """Coverage and width of the band over some cases."""
        count = sum(pick(each) and each.case.measured.kv_gib is not None for each in self._scored)
        return TableRow(label, count, self._cells(lambda cases: self._band_cell(cases, pick)))

    def shares(self, label: str, pick: Pick) -> TableRow:
        """Verdicts over some cases, as shares of those that have one."""
        count = sum(pick(each) for each in self._scored)
        return TableRow(label, count, self._cells(lambda cases: self._share_cell(cases, pick)))

    def bands(self) -> Iterator[TableRow]:
        """Measured values inside, the widths, and the share of bands that are narrow enough to be of use."""
        count = sum(each.case.measured.kv_gib is not None for each in self._scored)
        for label, pick in (
            ("measured inside the band", _everything),
            ("of these, with known flags", lambda each: each.has_known_flags),
            ("of these, held out from the fit", lambda each: each.held_out),
        ):
            yield TableRow(label, None, self._inside(pick))
        yield TableRow("width in GiB: median / p90 / worst", count, self._cells(self._width_cell))
        yield TableRow("width within 1.0 GiB + 1.5 % of the card", count, self._cells(self._narrow_cell))

    def _inside(self, pick: Pick) -> tuple[str, ...]:
        return self._cells(lambda cases: self._inside_cell(cases, pick))

    def _cells(self, cell: Callable[[list[Prediction]], str]) -> tuple[str, ...]:
        return tuple("not run" if column.cases is None else cell(column.cases) for column in self._columns)

    def _error_cell(self, cases: list[Prediction], measure: Measure, pick: Pick) -> str:
        pairs = zip(self._scored, cases, strict=True)
        found = [error(each, said, measure) for each, said in pairs if pick(each)]
        return error_cell([value for value in found if value is not None], _DIGITS[measure])

    def _verdict_cell(self, cases: list[Prediction], pick: Pick) -> str:
        said = verdicts(self._scored, cases, pick)
        return f"{said.sure}, {said.probable}, {said.no}" if said.count else NO_ANSWER

    def _share_cell(self, cases: list[Prediction], pick: Pick) -> str:
        said = verdicts(self._scored, cases, pick)
        if not said.count:
            return NO_ANSWER
        parts = (said.sure, said.probable, said.no)
        return f"{', '.join(f'{part / said.count:.0%}' for part in parts)} ({said.count})"

    def _band_cell(self, cases: list[Prediction], pick: Pick) -> str:
        found = self._picked_bands(cases, pick)
        return f"{_inside_text(found)}; {_widths_text(found)}" if found else NO_ANSWER

    def _picked_bands(self, cases: list[Prediction], pick: Pick) -> Bands | None:
        pairs = [(each, said) for each, said in zip(self._scored, cases, strict=True) if pick(each)]
        return bands([each for each, _ in pairs], [said for _, said in pairs])

    def _inside_cell(self, cases: list[Prediction], pick: Pick) -> str:
        found = self._picked_bands(cases, pick)
        return _inside_text(found) if found else NO_ANSWER

    def _width_cell(self, cases: list[Prediction]) -> str:
        found = bands(self._scored, cases)
        return _widths_text(found) if found else NO_ANSWER

    def _narrow_cell(self, cases: list[Prediction]) -> str:
        found = bands(self._scored, cases)
        return f"{found.narrow} of {found.count} ({found.narrow / found.count:.0%})" if found else NO_ANSWER


def _inside_text(found: Bands) -> str:
    return f"{found.inside} of {found.count} ({found.share:.0%})"


def _widths_text(found: Bands) -> str:
    return " / ".join(f"{quantile(found.widths, share):.2f}" for share in (0.5, 0.9, 1.0))


def error_cell(found: Sequence[float], digits: int) -> str:
    """Median, 90th percentile and worst of signed errors, with their number."""
    summary = summarize(found)
    if summary is None:
        return NO_ANSWER
    return (
        f"{summary.median:.{digits}f} / {summary.p90:.{digits}f} / {summary.worst_signed:+.{digits}f} ({summary.count})"
    )


def _measured_again(each: Scored) -> Prediction:
    """The measurement as if it were predicted: it has an error wherever the case can have one."""
    measured = each.case.measured
    return Prediction(measured.weights_gib, measured.kv_gib, measured.kv_tokens, measured.concurrency)


def _oracle_rows(loaded: Loaded, columns: Sequence[Column]) -> Iterator[TableRow]:
    gpus = [row.tensor_parallel * row.pipeline_parallel for row, _ in loaded.weights]
    for label, least, most in (("all: error in %", 1, None), ("one GPU", 1, 1), ("several GPUs", 2, None)):
        numbers = [number for number, each in enumerate(gpus) if least <= each <= (most or each)]
        yield TableRow(label, len(numbers), tuple(_oracle_cell(loaded, column, numbers) for column in columns))
    everything = range(len(gpus))
    yield TableRow("equal to 0.01 %", len(gpus), tuple(_exact_cell(loaded, column, everything) for column in columns))
    unsaid = [number for number, (row, _) in enumerate(loaded.weights) if row.buffers is None]
    for label, counted in (("without", False), ("with", True)) if unsaid else ():
        cells = (_oracle_cell(loaded, column, unsaid, buffers=counted) for column in columns)
        yield TableRow(f"rows that do not say it, taken as {label} buffers: error in %", len(unsaid), tuple(cells))


def _oracle_errors(loaded: Loaded, column: Column, numbers: Sequence[int], *, buffers: bool = False) -> list[float]:
    """Return signed errors in per cent of the rows that the predictor answers.

    ``buffers`` is how rows are taken that do not say whether they count buffers.
    """
    found = []
    for number in numbers:
        said, row = (column.weights or [])[number], loaded.weights[number][0]
        counted = buffers if row.buffers is None else row.buffers
        if said.weights_gib is not None and row.bytes:
            predicted = said.weights_gib + ((said.buffers_gib or 0) if counted else 0)
            found.append(100 * (predicted * GIB - row.bytes) / row.bytes)
    return found


def _oracle_cell(loaded: Loaded, column: Column, numbers: Sequence[int], *, buffers: bool = False) -> str:
    if column.weights is None:
        return "not run"
    return error_cell(_oracle_errors(loaded, column, numbers, buffers=buffers), 2)


def _exact_cell(loaded: Loaded, column: Column, numbers: Sequence[int]) -> str:
    if column.weights is None:
        return "not run"
    found = _oracle_errors(loaded, column, numbers)
    exact = sum(abs(each) <= EXACT_PER_CENT for each in found)
    return f"{exact} of {len(found)} ({exact / len(found):.0%})" if found else NO_ANSWER


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
