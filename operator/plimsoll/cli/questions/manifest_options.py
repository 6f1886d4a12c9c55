"""The fields of a manifest that the options of ``plimsoll estimate`` set. It needs no model of the API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from plimsoll.api.bounds import EXPECTED_SIZING
from plimsoll.cli.questions.asked import DEFAULT_CONCURRENCY, DEFAULT_CONTEXT, TypedOptions
from plimsoll.cli.questions.engine_names import named_engine, release_of
from plimsoll.domain.engines.engine_choice import ANY_ENGINE, DEFAULT_ENGINE
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.kubernetes_names import API_VERSION, KIND
from plimsoll.engines.registry import engine_of


def manifest_about(
    model: Mapping[str, Any], asked: TypedOptions, draft: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return a manifest made from the spec's entry for a model, and from options.

    Raises:
        InvalidInput: an option needs another one.
    """
    spec = {"model": dict(model), "contextLength": DEFAULT_CONTEXT, "concurrency": DEFAULT_CONCURRENCY}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": "estimate"},
        "spec": with_options(spec, asked, draft),
    }


def with_options(
    spec: Mapping[str, Any], asked: TypedOptions, draft: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the spec with the values that the options set. ``draft`` is the spec's entry for the model that drafts."""
    named, engines = named_engine(asked.engine), spec.get("engine") or {}
    written = engines.get("name") if isinstance(engines, dict) else None
    is_other = named.name not in (None, ANY_ENGINE, written or DEFAULT_ENGINE)
    engine = {
        "name": named.name,
        "version": release_of(engine_of(str(named.name)), named) if is_other else named.release,
        "gpuMemoryUtilizationPercent": asked.utilization,
        "maxBatchedTokens": asked.batched_tokens,
        "maxSequences": asked.max_sequences,
        "enforceEager": asked.eager or None,
        "textOnly": asked.text_only or None,
        "cpuOffload": asked.cpu_offload,
        "lora": None if asked.lora is None else {"maxAdapters": asked.lora[0], "maxRank": asked.lora[1]},
        "speculation": _speculation(asked, draft),
    }
    means = mean_lengths(asked)
    changes = {
        "contextLength": asked.context_length,
        "concurrency": asked.concurrency,
        "precision": asked.precision,
        "kvCache": _cache(asked, spec.get("kvCache")),
        "expectedTokens": means,
        "sizing": None if means is None else EXPECTED_SIZING,
        "workload": _workload(asked),
    }
    changed = {key: value for key, value in changes.items() if value is not None}
    own = {key: value for key, value in engine.items() if value is not None}
    if not isinstance(engines, dict):
        return {**spec, **changed, "engine": engines}
    # An order of engines is for the choice that an engine's name replaces.
    dropped = () if named.name in (None, ANY_ENGINE) else ("prefer",)
    return {**spec, **changed, "engine": {key: each for key, each in engines.items() if key not in dropped} | own}


def _cache(asked: TypedOptions, known: object) -> dict[str, Any] | None:
    """Return the entry with the values that the options set; None if they set none."""
    given = {"precision": asked.kv_precision, "hostMemory": asked.host_memory}
    found = {key: value for key, value in given.items() if value is not None}
    if not found:
        return None
    return {**(known if isinstance(known, Mapping) else {}), **found}


def bounded(spec: Mapping[str, Any], gpus: Sequence[str], tensor_parallel: int | None) -> dict[str, Any]:
    """Return the spec with these GPU types alone, and with this degree; without one of them, what it says itself."""
    bounds: dict[str, Any] = {}
    if gpus:
        bounds["gpu"] = {**(spec.get("gpu") or {}), "allow": list(gpus)}
    if tensor_parallel is not None:
        bounds["overrides"] = {**(spec.get("overrides") or {}), "tensorParallel": tensor_parallel}
    return {**spec, **bounds}


def mean_lengths(asked: TypedOptions) -> Mapping[str, int | None] | None:
    """Return the mean lengths; None if none is given. One alone raises :class:`InvalidInput`."""
    expected = {"prompt": asked.prompt, "output": asked.output}
    missing = [name for name, tokens in expected.items() if tokens is None]
    if len(missing) == 1:
        given = {"prompt": "--output-tokens", "output": "--prompt"}
        raise InvalidInput(
            given[missing[0]], max(filter(None, expected.values())), "Name --prompt and --output-tokens."
        )
    return None if missing else expected


def shared_prefix(asked: TypedOptions) -> tuple[int, int] | None:
    """Return the tokens of the shared prefix, and the percent of the requests with it; None if none is named."""
    if asked.shared_prefix is None:
        if asked.shared_percent is not None:
            raise InvalidInput("--shared-percent", asked.shared_percent, "Name --shared-prefix as well.")
        return None
    return asked.shared_prefix, 100 if asked.shared_percent is None else asked.shared_percent


def _workload(asked: TypedOptions) -> dict[str, Any] | None:
    prefix = shared_prefix(asked)
    return None if prefix is None else {"sharedPrefix": {"tokens": prefix[0], "requestsPercent": prefix[1]}}


def _speculation(asked: TypedOptions, draft: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if asked.speculate is None:
        if asked.draft is not None:
            raise InvalidInput("--draft", asked.draft, "Say how it drafts, e.g. --speculate Eagle 3.")
        return None
    method, tokens = asked.speculate
    entry: dict[str, Any] = {"method": method, "tokens": tokens}
    return entry if draft is None else {**entry, "draftModel": dict(draft)}
