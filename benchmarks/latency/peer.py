"""aiconfigurator's own times for the rows, from the kernel tables of its vLLM backend (0.12.0, PyPI, Apache-2.0).

It is asked with its defaults: users of an engine as its batch, the largest step as its context tokens, the newest of
its tables for the card, and a checkpoint's formats as its configuration states them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from benchmarks.accuracy.peers.aiconfigurator import SYSTEMS
from benchmarks.accuracy.peers.environment import ask
from benchmarks.latency.cases import Case, config_of
from benchmarks.latency.prediction import Prediction
from plimsoll.domain.models.precision import Precision

NAME: Final = "aiconfigurator"
_FORMATS: Final = {Precision.FP8: "fp8", Precision.NVFP4: "nvfp4"}
"""Its names of formats that a configuration does not state."""

_MILLISECONDS: Final = 1000


class Answers(NamedTuple):
    """A prediction for every case, None where it has none, and how often it said why."""

    predictions: list[Prediction | None]
    refusals: Counter[str]


def asked(cases: Sequence[Case]) -> Answers:
    """Return what it says of all cases.

    Raises:
        PeerUnavailable: it cannot be installed or run here.
    """
    questions = [_question(case) for case in cases]
    said = iter(ask("aiconfigurator_latency", (each for each in questions if each is not None)))
    answers = [{"error": "no system for the card"} if each is None else next(said) for each in questions]
    refusals = Counter(re.split(r"[:.{]", each["error"])[0].strip() for each in answers if "error" in each)
    return Answers([*map(_prediction, cases, answers)], refusals)


def _question(case: Case) -> dict[str, Any] | None:
    """Return the arguments of its ``cli_estimate``; None if it has no system for the card."""
    row, split = case.row, case.split
    config, quantize = config_of(row.model, row.precision)
    if config is None or row.gpu not in SYSTEMS:
        return None
    ranks = split.tensor_parallel * split.data_parallel
    experts = ranks if split.expert_parallel else 1
    formats = {} if quantize is None else dict.fromkeys(("gemm_quant_mode", "moe_quant_mode"), _FORMATS.get(quantize))
    return {
        "config": config,
        "system": SYSTEMS[row.gpu],
        "isl": round(row.prompt),
        "osl": max(2, round(row.output)),
        "batch_size": max(1, round(row.running / split.data_parallel)),
        "ctx_tokens": row.batched_tokens,
        "tp_size": split.tensor_parallel,
        "pp_size": split.pipeline_parallel,
        "attention_dp_size": split.data_parallel,
        "moe_tp_size": ranks // experts,
        "moe_ep_size": experts,
        "kvcache_quant_mode": "fp8" if row.kv_precision.startswith("fp8") else None,
        **formats,
    }


def _prediction(case: Case, answer: dict[str, Any]) -> Prediction | None:
    if "error" in answer:
        return None
    ttft = None if case.row.scored_ttft is None else answer["ttft"] / _MILLISECONDS
    return Prediction(answer["tpot"] / _MILLISECONDS, ttft)
