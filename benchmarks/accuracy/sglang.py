"""SGLang's measured starts: our own estimate against what each engine logged. No peer has a law for this engine."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from benchmarks.accuracy.cases import BadRow
from benchmarks.accuracy.loading import CONFIGS, DATA, MODELS
from benchmarks.accuracy.ours import facts_of
from benchmarks.accuracy.reading.configs import ConfigShelf
from benchmarks.accuracy.reading.gpus import find_gpu
from benchmarks.accuracy.reading.rows import Row, read_rows
from benchmarks.accuracy.statistics import Summary, summarize
from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import EngineSettings, Fit, MemoryEstimate, Split
from plimsoll.domain.engines.engine_choice import EngineChoice, EngineVersion, StaticShare
from plimsoll.domain.errors import UnsupportedModel
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.domain.requests.serving import Request, ServingShape
from plimsoll.domain.units import GIB
from plimsoll.engines.sglang.memory.estimate import attention_of, estimate
from plimsoll.engines.sglang.memory.free import effective_share, media_bytes, taken_bytes
from plimsoll.engines.sglang.memory.pool import Pools, cells_of
from plimsoll.engines.sglang.settings import engine_settings
from plimsoll.memory.weights import weights_bytes

ENGINE: Final = "sglang"
"""The word of a record's ``engine``; records of vLLM have none."""

STARTS: Final = DATA / "sglang_starts.json"
_OWN_MODELS: Final = DATA / "sglang_models.json"
_START_CONFIGS: Final = DATA / "start-configs"
_RELEASE: Final = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
_ANY_RELEASE: Final = EngineVersion(0, 5, 20)
_SHARED: Final = "(shared)"
_TOKENS_SLACK: Final = 0.002
"""Logs round GiB to a hundredth and tokens to whole pages, so an edge of the band is as wide as that."""


@dataclass(frozen=True, slots=True)
class Start:
    """One logged start as the law is asked about it, and its answer.

    ``law_tokens`` are the tokens that the pool's law makes of the free memory and the weights that the log states; None
    where it states none. ``needs`` says what of the start was filled in; empty if all that matters is in it.
    """

    id: str
    model: str
    request: Request
    gpu: GpuType
    split: Split
    figures: MemoryEstimate
    outcome: str
    tokens: int | None
    weights_gib: float | None
    law_tokens: int | None
    needs: tuple[str, ...]

    @property
    def error(self) -> float | None:
        """The signed error of the tokens, as a share; None where none were logged, or nothing was expected to fit."""
        return None if not self.tokens else self.figures.kv_capacity_tokens / self.tokens - 1

    @property
    def law_error(self) -> float | None:
        """The same of the pool's law alone."""
        return None if not self.tokens or self.law_tokens is None else self.law_tokens / self.tokens - 1

    @property
    def is_inside(self) -> bool | None:
        """Whether the logged tokens are within the band; None where none were logged."""
        if not self.tokens:
            return None
        low, high = self.figures.kv_capacity_low_tokens, self.figures.kv_capacity_high_tokens
        return low * (1 - _TOKENS_SLACK) <= self.tokens <= high * (1 + _TOKENS_SLACK)

    @property
    def ran(self) -> bool:
        """Whether the engine got as far as serving."""
        return self.outcome in ("ok", "not stated")

    @property
    def is_needless_no(self) -> bool:
        """Whether we turn down what ran with room for one longest request."""
        return self.ran and self.figures.fit is Fit.NO and (self.tokens or 0) >= self.request.shape.context_tokens

    @property
    def is_false_sure(self) -> bool:
        """Whether we call sure what did not serve."""
        return not self.ran and self.figures.fit is Fit.SURE


def read_starts(path: Path, left_out: list[BadRow], bad: list[BadRow]) -> list[Start]:
    """Read the starts of a file, and answer each. What is left out is noted with its reason."""
    shelves = [
        ConfigShelf(folder, models, bad)
        for folder, models in ((CONFIGS, MODELS), (_START_CONFIGS, _OWN_MODELS), (CONFIGS, _OWN_MODELS))
    ]
    found = []
    for place, row in read_rows(path, bad):
        if row.text("engine") != ENGINE:
            continue
        name = row.text("id") or place
        try:
            found.append(_start(name, row, shelves))
        except (ValueError, UnsupportedModel) as error:
            left_out.append(BadRow(name, str(error)))
    return found


def _start(name: str, row: Row, shelves: Sequence[ConfigShelf]) -> Start:
    """Return one start.

    Raises:
        ValueError: it does not tell what the law needs; the message says what.
        UnsupportedModel: no law covers the model.
    """
    model, flags = row.text("model") or "", row.first("other_flags")
    share, given = row.number("mem_fraction_static"), flags if isinstance(flags, Mapping) else {}
    if share is None:
        raise ValueError("the share is not stated")
    config = next((found.config for shelf in shelves if (found := shelf.find(model)) is not None), None)
    if config is None:
        raise ValueError(f"no configuration: {model}")
    if _is_elsewhere(row):
        raise ValueError("experts in host memory, by another program")
    facts, split = facts_of(model, config), _split(row)
    gpu, needs = _gpu(row, facts, split)
    version = _version(row.text("engine_version"))
    engine = EngineChoice(version, name=ENGINE, unfollowed=_attention(given), own_defaults=True)
    precision = _precision(row, facts)
    context = row.integer("max_model_len") or facts.max_context_tokens
    request = Request(
        key=ObjectKey("benchmark", "case"),
        model=facts,
        precision=precision,
        kv_precision=_kv_precision(row, facts),
        shape=ServingShape(context_tokens=context, concurrency=1),
        engine=engine,
    )
    settings = _settings(row, request, gpu, split, share, given)
    figures = estimate(request, gpu, split, settings)
    return Start(
        id=name,
        model=model,
        request=request,
        gpu=gpu,
        split=split,
        figures=figures,
        outcome=row.text("outcome") or "",
        tokens=row.integer("kv_cache_tokens"),
        weights_gib=row.number("weights_gib"),
        law_tokens=_by_law(row, request, gpu, split, settings),
        needs=needs,
    )


def _is_elsewhere(row: Row) -> bool:
    return "kt" in (row.text("engine_version") or "")


def _by_law(row: Row, request: Request, gpu: GpuType, split: Split, settings: EngineSettings) -> int | None:
    """Return the tokens of the logged free memory and weights; None where it states none."""
    free, after = row.number("free_before_load_gib"), row.number("free_after_load_gib")
    if free is None or after is None or settings.static is None:
        return None
    share = effective_share(gpu, settings.static.thousandths, settings.max_model_len, attention_of(request))
    pool = after - free * (1 - share.expected / 100_000)
    kept = media_bytes(request, gpu, settings.max_num_seqs)
    return Pools(cells_of(request, split), settings.static).tokens(int(pool * GIB) - kept)


def _split(row: Row) -> Split:
    """Return the split. SGLang counts the ranks of attention's data parallelism among those of tensor parallelism."""
    ranks, engines = row.integer("tensor_parallel_size") or 1, row.integer("data_parallel_size") or 1
    experts = bool(row.flag("expert_parallel"))
    return Split(ranks // engines, row.integer("pipeline_parallel_size") or 1, engines, experts)


def _gpu(row: Row, facts: ModelFacts, split: Split) -> tuple[GpuType, tuple[str, ...]]:
    """Return the card. One that others use has the memory that was free; one without a name has about as much."""
    named, free = row.text("gpu") or "", _free(row, facts, split)
    found = None if "not stated" in named else find_gpu(named.replace(_SHARED, "").strip(), None)
    is_shared = _SHARED in named or (found is not None and found.gpu.unified_memory)
    if found is not None and not (is_shared and free is not None):
        return found.gpu, ()
    if free is None:
        raise ValueError("the card is not stated")
    if found is None:
        unnamed = find_gpu(None, free + _ALONE_GIB)
        if unnamed is None:
            raise ValueError("the card is not stated")
        return replace(unnamed.gpu, usable_bytes=int((free + _ALONE_GIB) * GIB)), ("card",)
    alone = replace(found.gpu, unified_memory=False)
    total = int(free * GIB) + taken_bytes(alone, split).expected
    return replace(alone, usable_bytes=total), ("what others hold",)


_ALONE_GIB = 0.7


def _free(row: Row, facts: ModelFacts, split: Split) -> float | None:
    """Return the memory that was free before the weights, or by what was free after them; None without either."""
    before, after = row.number("free_before_load_gib"), row.number("free_after_load_gib")
    if before is not None or after is None:
        return before
    return after + weights_bytes(facts, facts.checkpoint.precision, split) / GIB


def _version(text: str | None) -> EngineVersion:
    found = _RELEASE.search(text or "")
    return _ANY_RELEASE if found is None else EngineVersion(int(found[1]), int(found[2]), int(found[3] or 0))


def _attention(flags: Mapping[str, Any]) -> tuple[str, ...]:
    named = flags.get("attention_backend")
    return () if named is None else ("--attention-backend", str(named))


def _precision(row: Row, facts: ModelFacts) -> Precision:
    quantized = facts.checkpoint.precision.is_quantized
    return Precision.FP16 if row.text("dtype") == "float16" and not quantized else facts.checkpoint.precision


def _kv_precision(row: Row, facts: ModelFacts) -> KvPrecision:
    word = row.text("kv_cache_dtype") or "auto"
    if word.startswith("fp8"):
        return KvPrecision.FP8
    return KvPrecision.BF16 if word != "auto" else facts.checkpoint.kv_precision or KvPrecision.BF16


def _settings(
    row: Row, request: Request, gpu: GpuType, split: Split, share: float, flags: Mapping[str, Any]
) -> EngineSettings:
    usual = engine_settings(request, gpu, split)
    ratio, cap = flags.get("swa_full_tokens_ratio"), flags.get("max_total_tokens")
    static = StaticShare(
        round(share * 1000),
        window_thousandths=None if ratio is None else round(float(ratio) * 1000),
        most_tokens=None if cap is None else int(cap),
    )
    return replace(
        usual,
        max_num_seqs=row.integer("max_num_seqs") or usual.max_num_seqs,
        max_num_batched_tokens=row.integer("max_num_batched_tokens") or usual.max_num_batched_tokens,
        enforce_eager=bool(row.flag("enforce_eager")),
        static=static,
    )


def table(starts: Sequence[Start], left_out: Sequence[BadRow]) -> Iterator[str]:
    """Yield the table in Markdown, and the counts below it."""
    yield "| start | release | verdict | weights GiB | logged | tokens | band | logged | error | law alone |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for each in starts:
        figures = each.figures
        band = f"{figures.kv_capacity_low_tokens:,} to {figures.kv_capacity_high_tokens:,}"
        cells = (
            each.id,
            str(each.request.engine.version),
            figures.fit.value,
            f"{figures.weights_bytes / GIB:.2f}",
            "" if each.weights_gib is None else f"{each.weights_gib:.2f}",
            f"{figures.kv_capacity_tokens:,}",
            band,
            f"{each.tokens:,}" if each.tokens else each.outcome,
            _percent(each.error),
            _percent(each.law_error),
        )
        yield f"| {' | '.join(cells)} |"
    yield ""
    yield from counts(starts, left_out)


def counts(starts: Sequence[Start], left_out: Sequence[BadRow]) -> Iterator[str]:
    """Yield what the table comes to."""
    yield f"- {len(starts)} starts with a stated share and a known configuration; {len(left_out)} are left out."
    own = [each.error for each in starts if each.error is not None and each.ran]
    law = [each.law_error for each in starts if each.law_error is not None and each.ran]
    yield f"- Tokens, predicted from model, card and flags: {_summed(summarize(own))}."
    yield f"- Tokens, by the law of the pool from the logged free memory and weights: {_summed(summarize(law))}."
    inside = [each.is_inside for each in starts if each.is_inside is not None and each.ran]
    yield f"- Starts that ran, with the logged tokens inside the band: {sum(inside)} of {len(inside)}."
    sure = [each.id for each in starts if each.is_false_sure]
    yield f"- Failures called sure: {', '.join(sure) or 'none'}."
    needless = [each.id for each in starts if each.is_needless_no]
    yield f"- No, and ran with room for one longest request: {', '.join(needless) or 'none'}."
    reasons = Counter(row.reason.split(":")[0] for row in left_out)
    yield f"- Left out: {'; '.join(f'{count} x {reason}' for reason, count in reasons.most_common())}."


def by_model(starts: Sequence[Start]) -> dict[str, Summary]:
    """Return the errors of the tokens of each model, so that no model stands for others."""
    errors: dict[str, list[float]] = {}
    for each in starts:
        if each.error is not None and each.ran:
            errors.setdefault(each.model, []).append(each.error)
    return {model: found for model, values in errors.items() if (found := summarize(values)) is not None}


def _percent(error: float | None) -> str:
    return "" if error is None else f"{100 * error:+.1f} %"


def _summed(found: Summary | None) -> str:
    if found is None:
        return "none"
    sizes = f"median {100 * found.median:.1f} %, p90 {100 * found.p90:.1f} %"
    return f"{sizes}, worst {100 * found.worst_signed:+.1f} %, {found.count} starts"
