"""Warnings about a choice: the consequences of an admin's overrides, and the limits of the model's facts.

The sentence of each doubt about an estimate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from plimsoll.domain.cluster.gpus import CapacityType
from plimsoll.domain.cluster.limit_ranges import default_limit
from plimsoll.domain.cluster.quota_accounts import is_counted, resource_in
from plimsoll.domain.cluster.spot import card_name
from plimsoll.domain.decisions.latency import Objective
from plimsoll.domain.decisions.outcomes import Fit, MemoryEstimate, Option
from plimsoll.domain.decisions.terms import Doubt, DoubtKind
from plimsoll.domain.models.model import Evidence
from plimsoll.domain.public_words import Numbers
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import format_gib, to_milliseconds, to_percent, to_rfc3339
from plimsoll.performance.slo import INTERACTIVE, upper_quarter
from plimsoll.placement.demands.failed_moves import FailedMove
from plimsoll.placement.demands.pools import SeenAnswers, is_at
from plimsoll.placement.explain import bounds_sentence, place_words
from plimsoll.placement.options.speed import missed

_SENTENCES = {
    DoubtKind.GENERIC_READING: (
        "The model class {architecture} is not known here: its fields were read as most classes use them. The error "
        "band is wider, and the fit is never called sure until an engine of this kind has served."
    ),
    DoubtKind.NEWER_RELEASE: (
        "{title} {release} is newer than {newest}, the newest release with a known memory law: that law was used. The "
        "fit is never called sure until an engine of this kind has served."
    ),
    DoubtKind.RELEASE_NOT_MEASURED: (
        "No start of {title} {release} was compared with the estimate: its memory law follows the release's sources "
        "alone. The fit is never called sure until an engine of this kind has served."
    ),
    DoubtKind.FEW_STARTS: (
        "Only {starts} starts of models with {layers} are known, and they differ by up to {gib} GiB from the estimate. "
        "The fit is never called sure until an engine of this kind has served."
    ),
    DoubtKind.POOLING_NOT_MEASURED: (
        "No start of a model that embeds, ranks or classifies was compared with the estimate, which follows the "
        "engine's sources. The fit is never called sure until an engine of this kind has served."
    ),
    DoubtKind.NOT_MEASURED: (
        "No measured start had {pairs}, so the estimate follows the engine's sources there. The fit is never called "
        "sure until an engine of this kind has served."
    ),
    DoubtKind.SHARED_MEMORY: (
        "This GPU shares the memory of its host: the engine finds free what the system, files that were read and other "
        "pods leave of it ({free} GiB of {usable} on kits in use). The fit is never called sure until an engine of "
        "this kind has served."
    ),
    DoubtKind.TRANSFORMERS_BACKEND: (
        "{title} {release} does not implement {lacks}; {served} does. It may load the model through its generic "
        "Transformers backend, if its Transformers library has the class. No figure was checked on that way, and the "
        "fit is never called sure until an engine of this kind has served."
    ),
    DoubtKind.NOT_IN_RELEASE: (
        "{title} {release} as published lacks {lacks}; {served} has it. Only an image of your own may load the model, "
        "and the fit is never called sure until an engine of this kind has served."
    ),
    DoubtKind.REMOTE_CODE: (
        "{title} {release} may read the configuration ({kind}) only with code of the model's repository, and it ends "
        "without {flag}. Read that code before you pass the flag. The fit is never called sure without it, until an "
        "engine of this kind has served."
    ),
    DoubtKind.FLOAT32: (
        "{title} computes in float32 here. No measured start did so on such a GPU, and kernels for wide heads may need "
        "more shared memory than it has: then the engine ends, however much GPU memory is free. The fit is never "
        "called sure until an engine of this kind has served."
    ),
    DoubtKind.FILES_NOT_KNOWN: (
        "{title} ends unless the repository of the model has the files that these options ask for, and nothing here "
        "says so: {options}. Leave them out, or ask about a folder that holds the checkpoint."
    ),
    DoubtKind.OPTIONS_NOT_CHECKED: (
        "{title} starts with these options only under conditions that are not checked here, such as another option, a "
        "split or a range: {options}. The fit is never called sure until an engine of this kind has served."
    ),
    DoubtKind.UNFOLLOWED_OPTIONS: (
        "These options can change the memory, and the memory law does not include them: {options}. The fit is never "
        "called sure until an engine of this kind has served."
    ),
}

_UNHEARD_OF = " The newest release known here is {known}: check the number."


def doubt_sentence(doubt: Doubt) -> str:
    """Return a few sentences for the reader of an estimate."""
    numbers = dict(doubt.numbers)
    text = _SENTENCES[doubt.kind] + (_UNHEARD_OF if "known" in numbers else "")
    return text.format(**numbers)


_NARROW_CACHE = (
    "The KV cache is fp8, as spec.kvCache.allowFp8 permits: when this place was chosen, 16 bits did not do here, and "
    "had no other place or cost over a tenth more. Answers can get worse, most with long contexts."
)


def warnings_for(request: Request, choice: Option) -> tuple[str, ...]:
    """Return one sentence for each warning; empty if there are none."""
    probable = choice.estimate.fit_of_bytes is Fit.PROBABLE and not _is_proven(request, choice)
    fit_warnings = (_probable_warning(choice),) if probable else ()
    doubts = tuple(doubt_sentence(doubt) for doubt in choice.estimate.doubts)
    cache_warnings = (_NARROW_CACHE,) if choice.has_narrow_cache else ()
    own = (
        *choice_warnings(request, choice),
        *cache_warnings,
        *fit_warnings,
        *doubts,
        *_speed_warnings(request, choice),
    )
    return (*own, *model_warnings(request))


def slow_warnings(choice: Option, seen: SeenAnswers | None) -> tuple[str, ...]:
    """Return that running engines are slower than the error band of their speed allows.

    Args:
        choice: what runs.
        seen: what was seen of its answers; None: nothing.
    """
    found = choice.performance
    if found is None or seen is None or not is_at(seen.pool, choice.gpu.name, choice.split):
        return ()
    edge = found.measured * found.tpot_band[1] / found.tpot_seconds
    if seen.slowness <= edge:
        return ()
    percent, most = to_percent(seen.slowness), to_percent(edge)
    warning = (
        f"A token takes its engines {percent} % of the estimated time, and the error band ends at {most} %. "
        "Look for a GPU that is throttled or that others use, for a pod that has too little CPU, and for CUDA graphs "
        "that are off. New replicas count with the measured time."
    )
    return (warning,)


def limit_warnings(request: Request, left: Mapping[str, int]) -> tuple[str, ...]:
    """Return that the namespace's quotas limit the limits of pods, and the pod states none.

    The API server refuses such a pod, unless a LimitRange of the namespace gives it a limit.
    Source: ``Constraints`` in ``pkg/quota/v1/evaluator/core/pods.go`` of Kubernetes ("must specify limits.cpu").

    Args:
        request: the deployment.
        left: what the namespace's quotas leave, by account.
    """
    counted = {resource_in(account) for account in left if is_counted(account, request.priority_class)}
    stated = (("cpu", request.cpu_limit_millis), ("memory", request.memory_limit_bytes))
    others = {name: [each.of(name).limit for each in request.companions] for name, _ in stated}
    bare = (name for name, own in stated if None in (own, *others[name]) and not _is_given(name, request))
    missing = [entry for name in bare if (entry := f"limits.{name}") in counted]
    if not missing:
        return ()
    fields = " and ".join(f"spec.podTemplate.resources.{name}" for name in missing)
    warning = (
        f"A ResourceQuota of the namespace limits {' and '.join(missing)}, and the pods state no such limit. The API "
        f"server refuses them unless a LimitRange gives them one. Set {fields}"
        f"{', and the same of the further containers' if request.companions else ''}."
    )
    return (warning,)


def _is_given(resource: str, request: Request) -> bool:
    return default_limit(resource, request.limit_ranges) is not None


def admission_warning(bounds: Numbers) -> str:
    """Return that the pods that run stay, and that the API server refuses new ones, given the bounds that do so."""
    return f"What runs goes on, and a lost pod is not replaced: {bounds_sentence(bounds)}."


def failed_move_warning(failed: FailedMove) -> str:
    """Return what happened when the deployment was moved to the place where it runs, or is about to run."""
    delay = failed.delay
    why = f"{delay.reason}: {delay.message}" if delay.message else delay.reason
    return f"A move to {place_words(*failed.place)} did not come up in time at {to_rfc3339(failed.at)} ({why})."


def _speed_warnings(request: Request, choice: Option) -> Iterator[str]:
    """Yield that people have to wait, that a promise may be missed, and that a speed is a guess."""
    found = choice.performance
    if found is None:
        if choice.is_unmeasured:
            card = card_name(choice.gpu.name)
            yield f"The speed of a GPU like {card} is not validated, and there is no estimate of it for this model."
        return
    if choice.is_slow and request.objective is not Objective.BATCH:
        figures = dict(missed(INTERACTIVE, found))
        yield (
            f"{figures['figure']} is {figures['milliseconds']} ms at the declared load, more than the usual "
            f"{figures['limit']} ms for people who read along. To rule such a place out, set spec.slo to the latency "
            "that is needed."
        )
    ttft, tpot = upper_quarter(found)
    if choice.may_break_promise:
        yield (
            f"spec.slo is kept by the estimate, and may be missed: one in four engines is expected to take longer than "
            f"{to_milliseconds(ttft)} ms to the first token or {to_milliseconds(tpot)} ms per token."
        )
    if not found.is_measured:
        yield (
            f"The speed of a GPU like {card_name(choice.gpu.name)} is not validated: its TPOT may be "
            f"{to_milliseconds(found.tpot_band[0])} to {to_milliseconds(found.tpot_band[1])} ms, its TTFT "
            f"{to_milliseconds(found.ttft_band[0])} to {to_milliseconds(found.ttft_band[1])} ms."
        )


def choice_warnings(request: Request, choice: Option) -> tuple[str, ...]:
    """Return the consequences of the overrides and the load on this GPU. Free GPUs are not checked."""
    overrides = request.overrides
    warnings: list[str] = []
    if overrides.gpu_type is not None or overrides.tensor_parallel is not None:
        warnings.append(
            f"GPU type and split were forced to {choice.gpu.name} x {choice.split.tensor_parallel}: "
            "cheaper candidates were not considered."
        )
    if overrides.memory_per_gpu_bytes is not None:
        warnings.append(_memory_warning(choice))
    if choice.gpu.capacity is CapacityType.SPOT:
        warnings.append(
            "It runs on spot nodes, which the cloud may take back at any time: replicas stop then, and start anew "
            "where GPUs are free. Set spec.gpu.capacityTypes to [OnDemand] to run on other nodes."
        )
    if choice.split.gpus == 1 and not choice.gpu.is_slice and _WASTE * _load_bytes(choice) < choice.gpu.usable_bytes:
        warnings.append(
            f"The model and its load need {format_gib(_load_bytes(choice))} of the "
            f"{format_gib(choice.gpu.usable_bytes)} of a whole {card_name(choice.gpu.name)}, and nothing else shares "
            "the card. Smaller cards or slices of a card (MIG) would do."
        )
    if choice.estimate.fit_of_states is not Fit.SURE:
        refuses = "refuses" if choice.estimate.fit_of_states is Fit.NO else "may refuse"
        own = request.engine.own_defaults
        most = choice.estimate.max_sequences
        lower = f"Write --max-num-seqs {most}" if own else "Lower spec.engine.maxSequences"
        warnings.append(
            f"The recurrent states of {choice.estimate.max_sequences} sequences fit for sure, "
            f"{choice.estimate.sequences} are to run at the same time: the engine {refuses} to start. {lower}."
        )
    return (*warnings, *_host_warnings(request, choice))


_WASTE = 8
"""A card with this many times the memory that the load needs is named as too large for it."""


def _load_bytes(choice: Option) -> int:
    """Return the bytes that the declared load needs, without a margin."""
    return choice.estimate.expected_bytes


def _host_warnings(request: Request, choice: Option) -> Iterator[str]:
    """Yield that the user gives the pod less host memory than the engine is estimated to need."""
    given, needed = request.engine_need(choice.host).memory_bytes, choice.host.memory_bytes
    if given < needed:
        yield (
            f"spec.podTemplate.resources gives the pod {format_gib(given)} of host memory, its engine is estimated to "
            f"need {format_gib(needed)}: it may be killed while it loads."
        )
    if request.engine.host.has_file:
        yield (
            "LMCACHE_CONFIG_FILE may name another size of host memory than is requested, 5 GiB for each rank: write it "
            "into LMCACHE_MAX_LOCAL_CPU_SIZE, too."
        )
    if request.engine.host.fills_disk:
        yield (
            "The tier of files in --kv-transfer-config has no size, and the engine deletes none: they fill their "
            "volume, or the node's disk, until the pod is evicted."
        )


def model_warnings(request: Request) -> tuple[str, ...]:
    """Return the weak points of the model's facts, the wishes that go beyond them, and the remarks, for any GPU."""
    warnings = list(request.model.remarks)
    if request.model.evidence is Evidence.TENSORS:
        warnings.append(
            f"The model class {request.model.architecture} is not known here: its weights are those that the "
            "checkpoint stores, its KV cache was read as most classes lay it out, and the error band is wider."
        )
    context = request.model.max_context_tokens
    if request.shape.context_tokens > context:
        warnings.append(
            f"contextLength {request.shape.context_tokens} exceeds the {context} tokens that the model declares: "
            "the engine refuses unless the checkpoint scales its positions."
        )
    return (*warnings, *request.remarks)


def _is_proven(request: Request, choice: Option) -> bool:
    reported = (
        seen.kv_tokens for seen in request.observed if (seen.gpu_type, seen.split) == (choice.gpu.name, choice.split)
    )
    return min(reported, default=0) >= choice.estimate.kv_needed_tokens > 0


def _probable_warning(choice: Option) -> str:
    figures = choice.estimate
    if figures.computed_bytes <= figures.budget_bytes:
        return _outside_warning(figures)
    if not figures.is_expected_to_fit:
        return (
            f"No free GPU fits, neither for sure nor by the estimate. This fits at the lower edge of its error band "
            f"only ({format_gib(figures.least_bytes)} of {format_gib(figures.budget_bytes)} per GPU; the estimate is "
            f"{format_gib(figures.expected_bytes)}): {_risk(choice)}."
        )
    return (
        f"No free GPU fits for sure. This fits by the estimate ({format_gib(figures.expected_bytes)} of "
        f"{format_gib(figures.budget_bytes)} per GPU), not at the upper edge of its error band "
        f"({format_gib(figures.computed_bytes)}): {_risk(choice)}."
    )


def _risk(choice: Option) -> str:
    """Return what happens if the need is larger: the engine starts wherever one longest request fits."""
    figures = choice.estimate
    if choice.split.data_parallel * choice.settings.max_model_len <= figures.kv_capacity_low_tokens:
        return (
            f"the KV cache may hold only {figures.kv_capacity_low_tokens:,} of the {figures.kv_needed_tokens:,} tokens "
            "that the load needs, and requests wait then"
        )
    return "the engine may fail to start, and is then placed anew"


def _outside_warning(figures: MemoryEstimate) -> str:
    left = figures.usable_bytes - figures.budget_bytes
    percent = 100 * (figures.usable_bytes - figures.outside_bytes) // figures.usable_bytes
    remedy = f"Set spec.engine.gpuMemoryUtilizationPercent to {percent}." if percent > 0 else "Take a larger GPU."
    return (
        f"This fits the engine's budget, which leaves {format_gib(left)} of each GPU outside it. CUDA, communication "
        f"and CUDA graphs may take {format_gib(figures.outside_bytes)} there: the engine may fail to start, and is "
        f"then placed anew. {remedy}"
    )


def _memory_warning(choice: Option) -> str:
    figures = choice.estimate
    difference = figures.computed_bytes - figures.needed_bytes
    verdict = (
        f"by the computed need the GPU is short of {format_gib(figures.computed_bytes - figures.budget_bytes)}: "
        "expect the engine to fail at start or to hold fewer tokens than declared."
        if figures.computed_bytes > figures.budget_bytes
        else "the computed need fits too."
    )
    return (
        f"memoryPerGpu {format_gib(figures.needed_bytes)} replaces the computed {format_gib(figures.computed_bytes)} "
        f"({'-' if difference > 0 else '+'}{format_gib(abs(difference))}); {verdict}"
    )
