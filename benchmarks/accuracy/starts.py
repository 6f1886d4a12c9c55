"""Public reports of starts: our verdict, figures and remedies against what happened to the people who wrote them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from benchmarks.accuracy.loading import DATA, Sources, load
from benchmarks.accuracy.ours import Question, question_of
from plimsoll.cli.changes.remedies import RemedyAnswer, all_remedies
from plimsoll.domain.decisions.outcomes import Fit, MemoryEstimate
from plimsoll.domain.units import GIB
from plimsoll.placement.options.sizing import Sized

REPORTS: Final = DATA / "public_starts.json"
CONFIGS: Final = DATA / "start-configs"

SERVES, REFUSED, DIES = "serves", "refused", "dies"
"""The outcomes: it serves, the engine refuses to start, or it starts and dies under load or while it captures."""

_OPTIONS: Final = {
    "step": "--batched-tokens",
    "share": "--utilization",
    "context": "--context-length",
    "release": "--engine",
    "more-gpus": "--tp",
    "other-gpu": "--gpu",
}
"""How the command line writes the changes that worked for somebody."""

_WORDS: Final = {"sequences": "maxSequences", "runner": "model runner"}
"""Parts of the sentences of changes that no option of the command line makes."""


@dataclass(frozen=True, slots=True)
class Report:
    """One start of a report, and our answer.

    ``worked`` is the kind of change that worked for its author; empty where none is known. ``blocks`` are the blocks
    that the engine counted for recurrent states, and ``needed_gib`` the cache that it wanted for one longest request.
    """

    id: str
    source: str
    happened: str
    worked: str
    kv_gib: float | None
    concurrency: float | None
    blocks: int | None
    needed_gib: float | None
    question: Question
    remedies: tuple[RemedyAnswer, ...]

    @property
    def figures(self) -> MemoryEstimate:
        """Our estimate."""
        return self.question.figures

    @property
    def is_false_sure(self) -> bool:
        """Whether we call sure what did not serve."""
        return self.figures.fit is Fit.SURE and self.happened != SERVES

    @property
    def is_needless_no(self) -> bool:
        """Whether we turn down what serves."""
        return self.figures.fit is Fit.NO and self.happened == SERVES

    @property
    def kv_band(self) -> tuple[float, float]:
        """The edges of our band for the KV cache of one GPU, in GiB."""
        left = self.figures.available_kv_bytes
        return (left - self.figures.margin_bytes) / GIB, (left + self.figures.slack_bytes) / GIB

    @property
    def is_inside(self) -> bool | None:
        """Whether the KV cache that the engine got is inside the band, to a hundredth; None where nobody said it."""
        low, high = self.kv_band
        return None if self.kv_gib is None else low - 0.01 <= self.kv_gib <= high + 0.01

    @property
    def offers_what_worked(self) -> bool | None:
        """Whether the change that worked for its author is among ours; None where none is known or needed."""
        if not self.worked or self.figures.fit is Fit.SURE:
            return None
        documents = [each.document() for each in self.remedies]
        if self.worked in _WORDS:
            return any(_WORDS[self.worked] in each["message"] for each in documents)
        return any(_OPTIONS[self.worked] in each["options"].split() for each in documents)


def reports(path: Path = REPORTS, configs: Path = CONFIGS) -> tuple[Report, ...]:
    """Read the reports and answer each.

    Raises:
        ValueError: a report cannot be read, or names a model or a GPU that is not known here.
    """
    rows = {row["id"]: row for row in json.loads(path.read_text(encoding="utf-8"))}
    own, carried = (load(Sources(runs=None, logs=path, oracle=None, **where)) for where in ({"configs": configs}, {}))
    setups = {each.case.id: each for loaded in (carried, own) for each in loaded.scored}
    missing = sorted(rows.keys() - setups.keys())
    if missing:
        raise ValueError(f"{path}: no question can be made of {', '.join(missing)}")
    return tuple(_answered(row, setups[name].setup) for name, row in rows.items())


def _answered(row: dict[str, Any], setup: Any) -> Report:
    question = question_of(setup, setup.gpu)
    return Report(
        id=row["id"],
        source=row["url"],
        happened=row["happened"],
        worked=row.get("worked", ""),
        kv_gib=row.get("available_kv_gib"),
        concurrency=row.get("max_concurrency"),
        blocks=row.get("blocks"),
        needed_gib=row.get("needed_gib"),
        question=question,
        remedies=_remedies(question, setup),
    )


def _remedies(question: Question, setup: Any) -> tuple[RemedyAnswer, ...]:
    """Return the remedies for the flags as they were: all that the engine would choose itself is fixed."""
    fixed = replace(
        question.request.engine,
        max_sequences=question.settings.max_num_seqs,
        max_batched_tokens=question.settings.max_num_batched_tokens,
    )
    asked = replace(question.request, engine=fixed)
    answer = Sized(setup.gpu, question.split, question.settings, question.figures)
    return all_remedies(asked, setup.gpu, answer, question.split)


def table(found: Sequence[Report]) -> Iterator[str]:
    """Yield the table in Markdown, and the counts below it."""
    yield "| start | happened | verdict | KV GiB | said | worked | offered |"
    yield "|---|---|---|---|---|---|---|"
    for each in found:
        low, high = each.kv_band
        said = _said(each)
        kv = f"{each.figures.available_kv_bytes / GIB:.2f} [{low:.2f}, {high:.2f}]"
        offered = {None: "", True: "yes", False: "no"}[each.offers_what_worked]
        cells = (f"{each.id} ({each.source})", each.happened, each.figures.fit.value, kv, said, each.worked, offered)
        yield f"| {' | '.join(cells)} |"
    yield ""
    yield from counts(found)


def counts(found: Sequence[Report]) -> Iterator[str]:
    """Yield what the table comes to."""
    false, needless = ([each.id for each in found if test(each)] for test in (_false, _needless))
    inside = [each.is_inside for each in found if each.is_inside is not None]
    offered = [each.offers_what_worked for each in found if each.offers_what_worked is not None]
    yield f"- {len(found)} starts of {len({each.source for each in found})} reports."
    yield f"- Sure, and did not serve: {', '.join(false) or 'none'}."
    yield f"- No, and serves: {', '.join(needless) or 'none'}."
    yield f"- KV cache inside the band: {sum(inside)} of {len(inside)} that state it."
    yield f"- The change that worked is among the remedies: {sum(offered)} of {len(offered)} where one is known."


def _false(each: Report) -> bool:
    return each.is_false_sure


def _needless(each: Report) -> bool:
    return each.is_needless_no


def _said(each: Report) -> str:
    """Return the figures that the report states."""
    figures = each.figures
    parts = [] if each.kv_gib is None else [f"{each.kv_gib:.2f} GiB"]
    parts += (
        []
        if each.blocks is None
        else [f"{each.blocks} state blocks ({figures.max_sequences} to {figures.max_sequences_high})"]
    )
    parts += (
        [] if each.needed_gib is None else [f"needs {each.needed_gib:.2f} GiB ({figures.kv_cache_bytes / GIB:.2f})"]
    )
    if each.concurrency is not None:
        held = figures.kv_capacity_tokens / each.question.settings.max_model_len
        parts.append(f"{each.concurrency:.1f}x ({held:.1f}x)")
    return ", ".join(parts)
