"""Measured starts, from files in the form of ``runs.json`` or of ``startup_logs.json``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.accuracy.cases import BadRow, Case, Measured, Outcome
from benchmarks.accuracy.reading.rows import Row, UnreadableRow, read_rows
from benchmarks.accuracy.reading.speculation import FIELDS

_OUTCOMES = {
    "ok": Outcome.OK,
    "success": Outcome.OK,
    "succeeded": Outcome.OK,
    "insufficientkv": Outcome.INSUFFICIENT_KV,
    "insufficient": Outcome.INSUFFICIENT_KV,
    "nokv": Outcome.INSUFFICIENT_KV,
    "oom": Outcome.OOM,
    "outofmemory": Outcome.OOM,
}


def read_records(path: Path, dataset: str, bad: list[BadRow]) -> list[Case]:
    """Every readable record of a file, each with an id of its own.

    Args:
        path: a JSON list or JSON lines.
        dataset: ``runs``, whose records are complete commands, or ``logs``, where null means that nobody printed it.
        bad: takes the rows that cannot be read, by name.
    """
    cases: list[Case] = []
    seen: Counter[str] = Counter()
    for place, row in read_rows(path, bad):
        if row.text("engine") not in (None, "vllm"):  # another engine's, which has a table of its own
            continue
        try:
            case = _case(row, place, dataset)
        except UnreadableRow as error:
            bad.append(BadRow(row.text("id") or place, str(error)))
            continue
        seen[case.id] += 1
        cases.append(case if seen[case.id] == 1 else _renamed(case, seen[case.id]))
    return cases


def outcome_of(text: str | None, *, failure: Mapping[str, Any] | None = None, measured: bool = False) -> Outcome:
    """The outcome a record states; one that states none ran if it printed figures."""
    if failure and (kind := _OUTCOMES.get(_word(str(failure.get("kind", ""))))):
        return kind
    if text is None:
        return Outcome.OK if measured else Outcome.FAILED
    return _OUTCOMES.get(_word(text), Outcome.FAILED)


def _case(row: Row, place: str, dataset: str) -> Case:
    kv_gib, tokens = row.number("available_kv_gib", "kv_cache_memory_gib"), row.integer("kv_cache_tokens")
    failure = row.first("failure")
    measured = Measured(
        outcome=outcome_of(
            row.text("outcome", "status"),
            failure=failure if isinstance(failure, Mapping) else None,
            measured=kv_gib is not None or tokens is not None,
        ),
        weights_gib=row.number("weights_gib", "weight_memory_gib", "weights_memory_gib", "model_memory_gib"),
        kv_gib=kv_gib,
        kv_tokens=tokens,
        concurrency=row.number("max_concurrency"),
    )
    case = Case(
        id=row.text("id", "name") or "",
        dataset=dataset,
        model=row.text("model", "model_id"),
        measured=measured,
        source=row.text("url", "source"),
        complete=dataset == "runs" or bool(row.flag("flags_complete", "complete")),
        gpu=row.text("gpu", "gpu_name", "gpu_type"),
        total_gib=row.number("gpu_memory_gib", "init_total_memory_gib", "summary_total_gib", "total_memory_gib"),
        version=row.text("vllm_version", "version", "engine_version"),
        tensor_parallel=row.integer("tensor_parallel_size", "tp", "tensor_parallel"),
        pipeline_parallel=row.integer("pipeline_parallel_size", "pp", "pipeline_parallel"),
        data_parallel=row.integer("data_parallel_size", "dp", "data_parallel"),
        expert_parallel=bool(row.flag("expert_parallel", "enable_expert_parallel", "ep")),
        dtype=_dtype(row.text("dtype")),
        quantization=row.text("quantization"),
        kv_cache_dtype=row.text("kv_cache_dtype"),
        max_model_len=row.integer("max_model_len", "max_model_length"),
        utilization=row.number("gpu_memory_utilization", "utilization"),
        max_num_seqs=row.integer("max_num_seqs"),
        max_num_batched_tokens=row.integer("max_num_batched_tokens"),
        enforce_eager=row.flag("enforce_eager", "eager"),
        other_flags=_flags(row),
        suspect=row.text("suspect"),
    )
    return case if case.id else _named(case, place)


def _flags(row: Row) -> Mapping[str, Any]:
    """Flags by name; those that a record writes as one text, as a command line does, stand under ``cli``.

    Speculation may also stand next to the record's other fields.
    """
    given = row.first("other_flags", "flags", "command", "args")
    named = dict(given) if isinstance(given, Mapping) else {}
    if isinstance(given, str | list):
        named["cli"] = given if isinstance(given, str) else " ".join(map(str, given))
    fields = {key: value for key in FIELDS if (value := row.first(key)) is not None}
    return {**fields, **named}


def _named(case: Case, place: str) -> Case:
    """A record without an id is named by its flags, so that the name does not hang on its place in the file."""
    flags = (
        case.model,
        case.gpu,
        case.version,
        f"tp{case.tensor_parallel or 1}pp{case.pipeline_parallel or 1}",
        case.max_model_len,
        case.dtype,
        case.quantization,
        case.kv_cache_dtype,
        case.utilization,
    )
    name = "/".join(str(flag) for flag in flags if flag is not None)
    return _with_id(case, name if case.model else place)


def _renamed(case: Case, number: int) -> Case:
    return _with_id(case, f"{case.id}#{number}")


def _with_id(case: Case, name: str) -> Case:
    return replace(case, id=name)


def _dtype(text: str | None) -> str | None:
    return None if text is None else text.removeprefix("torch.")


def _word(text: str) -> str:
    return "".join(letter for letter in text.lower() if letter.isalnum())
