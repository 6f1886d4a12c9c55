"""The answers of ``plimsoll estimate`` as plain data: bytes and tokens, nothing rounded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from plimsoll.cli.answers.advice import advice
from plimsoll.cli.answers.api_words import api_answer
from plimsoll.cli.answers.cache_words import cache_document
from plimsoll.cli.answers.engines import two_engines
from plimsoll.cli.answers.limits import limits
from plimsoll.cli.answers.rows import AnsweredQuestion, AnswerRow
from plimsoll.cli.answers.segments import segments
from plimsoll.cli.answers.sentences import fit_by_law, floor_of, is_sure, kept_of, warnings_of
from plimsoll.cli.answers.steps import working_document
from plimsoll.cli.changes.remedies import RemedyAnswer, all_remedies, first_remedy
from plimsoll.cli.split_words import split_document
from plimsoll.domain.decisions.observations import Correction
from plimsoll.domain.decisions.outcomes import EngineSettings, Fit, MemoryEstimate, Rejection
from plimsoll.domain.requests.serving import Request
from plimsoll.placement.explain import rejection_sentence
from plimsoll.placement.options.sizing import Sized
from plimsoll.placement.options.streamed_layers import host_layers
from plimsoll.placement.places.warnings import doubt_sentence


def document_of(answer: AnsweredQuestion, *, why: bool = False) -> dict[str, Any]:
    """Return the document of ``plimsoll estimate -o json``; with ``why`` every formula, too."""
    advised = advice(answer.question.request, answer.rows)
    documents = [
        {
            **_answer(answer.question.request, row.answer),
            **_costs(row),
            **_api(answer, row),
            **_against(answer, row),
            "advice": [word.value for word, each in advised.items() if each is row],
            "remedies": [each.document() for each in _remedies(answer, row)],
            "notes": list(answer.notes if answer.question.against else answer.question.notes),
            **({} if answer.question.command is None else {"command": dict(answer.question.command)}),
            **({"working": working_document(row.answer)} if why else {}),
        }
        for row in answer.rows
    ]
    return {"answers": documents}


def _answer(request: Request, answer: Sized | Rejection) -> dict[str, Any]:
    if isinstance(answer, Rejection):
        return {
            "gpuType": answer.gpu_type,
            "tensorParallel": answer.split.tensor_parallel,
            "pipelineParallel": answer.split.pipeline_parallel,
            "dataParallel": answer.split.data_parallel,
            "fit": Fit.NO.value,
            "reason": answer.reason.value,
            "message": rejection_sentence(answer),
        }
    floor = floor_of(request, answer)
    return {
        "gpuType": answer.gpu.name,
        **split_document(answer.split),
        "fit": answer.figures.fit.value,
        "doubts": [{"code": each.kind.value, "message": doubt_sentence(each)} for each in answer.figures.doubts],
        **_override(answer.figures),
        **_memory(answer.figures),
        **_learned(request.correction_for(answer.gpu.name, answer.split)),
        **_host_cache(request, answer),
        **_host_layers(request, answer),
        "inverse": limits(request, answer).document(),
        "decodeFloorSeconds": None if floor is None else floor.seconds,
        "engine": {
            "maxModelLen": answer.settings.max_model_len,
            "maxNumSeqs": answer.settings.limits.sequences,
            "maxNumBatchedTokens": answer.settings.limits.step_tokens,
            "gpuMemoryUtilizationPercent": answer.settings.gpu_memory_utilization_percent,
            **_static(answer.settings),
            "name": request.engine.name,
            "version": str(request.engine.version),
        },
        "warnings": list(warnings_of(request, answer)),
    }


def _host_cache(request: Request, answer: Sized) -> dict[str, Any]:
    """Return the KV cache in host memory; empty without one."""
    kept = kept_of(request, answer)
    if kept is None:
        return {}
    times = kept.times
    seconds = None if times is None else {"loaded": times.loaded, "computed": times.computed}
    return {
        "hostCache": {
            "bytes": kept.size_bytes,
            "tokens": kept.tokens,
            "isLeast": kept.is_least,
            "secondsPerToken": seconds,
        }
    }


def _host_layers(request: Request, answer: Sized) -> dict[str, Any]:
    """Return the copy of a layer of weights in host memory, and its work; empty without any."""
    found = host_layers(request, answer.gpu, answer.split, answer.settings)
    if found is None:
        return {}
    layer = found.layer
    return {
        "hostLayers": {
            "bytesOfLayer": layer.size_bytes,
            "linkGigabytesPerSecond": found.link_gb_per_second,
            "copySeconds": layer.copied,
            "decodeSeconds": layer.decoding,
            "requests": found.requests,
            "promptSeconds": layer.reading,
            "promptTokens": found.prompt_tokens,
            "hiddenFromTokens": layer.hidden_from,
            "streamed": found.streamed,
            "group": found.group,
        }
    }


def _static(settings: EngineSettings) -> dict[str, Any]:
    """Return the share of the memory that is free before the weights, of an engine that counts from there."""
    return {} if settings.static is None else {"memFractionStatic": settings.static.thousandths / 1000}


def _remedies(answer: AnsweredQuestion, row: AnswerRow) -> Iterable[RemedyAnswer]:
    """Return what the table shows: the first remedy if it does not fit, and all of them for a single GPU type."""
    asked = (answer.question.request, row.gpu, row.answer, answer.split)
    if is_sure(row.answer) or not (answer.is_alone or row.fit is Fit.NO):
        return ()
    if answer.is_alone:
        return all_remedies(*asked)
    first = first_remedy(*asked)
    return () if first is None else (first,)


def _costs(row: AnswerRow) -> dict[str, Any]:
    """The price and the speed at the declared load; null if they are not known."""
    price, speed = row.gpu.price_in_force, row.speed
    return {
        "hourlyPrice": None if row.price is None else float(row.price),
        "priceSource": None if price is None else price.source,
        "performance": None
        if speed is None
        else {
            "tpotSeconds": {"expected": speed.tpot_seconds, "low": speed.tpot_band[0], "high": speed.tpot_band[1]},
            "ttftSeconds": {"expected": speed.ttft_seconds, "low": speed.ttft_band[0], "high": speed.ttft_band[1]},
            "outputTokensPerSecond": speed.output_tokens_per_second,
            "validated": speed.validated,
        },
    }


def _api(answer: AnsweredQuestion, row: AnswerRow) -> dict[str, Any]:
    """Return the row against an API, if one is asked about; null if its price or speed is not known."""
    if answer.question.api is None:
        return {}
    found = api_answer(answer.question, row)
    return {"api": None if found is None else found.document()}


def _against(answer: AnsweredQuestion, row: AnswerRow) -> dict[str, Any]:
    """Return the other engine's answer if one is named; null if it refuses, for which the notes have the reason."""
    if answer.question.against is None:
        return {}
    found = two_engines(answer, row)
    return {"againstEngine": None if found is None else found.other.document()}


def _override(figures: MemoryEstimate) -> dict[str, Any]:
    if figures.forced_bytes is None:
        return {}
    return {"overrideBytes": figures.forced_bytes, "fitByLaw": fit_by_law(figures).value}


def _learned(correction: Correction | None) -> dict[str, Any]:
    """Return the lessons of engines of the kind; empty if they taught nothing."""
    return {} if correction is None else {"learned": correction_document(correction)}


def correction_document(correction: Correction) -> dict[str, Any]:
    """Return a correction as data, in bytes of one GPU. ``measured`` is false if it is only known that it failed."""
    return {
        "measured": correction.exact,
        "weightsBytes": correction.weights_bytes,
        "activationsBytes": correction.activations_bytes,
        "restBytes": correction.rest_bytes,
        "totalBytes": correction.total_bytes,
        "aboveBytes": correction.above_bytes,
        "belowBytes": correction.below_bytes,
    }


def _memory(figures: MemoryEstimate) -> dict[str, Any]:
    return {
        "terms": {_camel(f"{each.name.key}_bytes"): each.size_bytes for each in segments(figures)},
        "expectedBytes": figures.expected_bytes,
        "bandBytes": {"low": figures.expected_bytes - figures.slack_bytes, "high": figures.computed_bytes},
        "budgetBytes": figures.budget_bytes,
        "usableBytes": figures.usable_bytes,
        "outsideBytes": figures.outside_bytes,
        "hostBytes": figures.host_bytes,
        "availableKvBytes": figures.available_kv_bytes,
        "kvBytesPerToken": figures.kv_bytes_per_token,
        "kvNeededTokens": figures.kv_needed_tokens,
        "kvCache": cache_document(figures),
        "kvCapacityTokens": capacity_document(figures),
        "maxSequences": figures.max_sequences,
    }


def capacity_document(figures: MemoryEstimate) -> dict[str, int]:
    """Return the tokens that fit, with their band."""
    low, high = figures.kv_capacity_low_tokens, figures.kv_capacity_high_tokens
    return {"expected": figures.kv_capacity_tokens, "low": low, "high": high}


def _camel(field: str) -> str:
    first, *rest = field.split("_")
    return first + "".join(word.capitalize() for word in rest)
