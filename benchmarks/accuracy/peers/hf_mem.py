"""hf-mem: the package itself, asked for weights and for the KV cache of one longest request.

Source: alvarobartt/hf-mem 0.5.6 (PyPI). It knows neither GPUs nor tensor parallelism, so weights are divided evenly
here, and it says nothing of what is left for a KV cache; its verdict is its total against the whole memory of the
GPUs. It reads headers of the checkpoint, which it is given from the shapes (see ``checkpoint.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.accuracy.checkpoint import Checkpoint
from benchmarks.accuracy.peers.environment import ask
from benchmarks.accuracy.prediction import Prediction, Verdict
from benchmarks.accuracy.setups import Setup
from plimsoll.domain.units import GIB


class HfMem:
    """hf-mem 0.5.6 in an environment of its own."""

    name = "hf-mem"
    source = "hf-mem 0.5.6 (PyPI), run offline"

    def predict(self, setups: Sequence[Setup]) -> list[Prediction]:
        """One prediction a setup; those without a checkpoint have no answer."""
        return _all(setups)

    def predict_weights(self, setups: Sequence[Setup]) -> list[Prediction]:
        """Weights of one GPU, divided evenly."""
        return _all(setups)


def _all(setups: Sequence[Setup]) -> list[Prediction]:
    readable = [(setup, setup.checkpoint) for setup in setups if setup.checkpoint is not None]
    answers = iter(ask("hf_mem", [_question(setup, checkpoint) for setup, checkpoint in readable]))
    return [
        Prediction(note="no headers to give it") if setup.checkpoint is None else _prediction(setup, next(answers))
        for setup in setups
    ]


def _question(setup: Setup, checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "config": dict(setup.config),
        "elements": dict(checkpoint.elements),
        "max_model_len": setup.max_model_len,
        "kv_cache_dtype": "fp8" if setup.kv_cache_dtype.startswith("fp8") else "auto",
    }


def _prediction(setup: Setup, answer: dict[str, Any]) -> Prediction:
    weights, cache = answer.get("weights"), answer.get("kv")
    if weights is None:
        return Prediction(note=answer.get("note", "no answer"))
    verdict = None
    if setup.gpu is not None and cache is not None:
        fits = weights + cache <= setup.gpu.usable_bytes * setup.gpus
        verdict = Verdict.SURE if fits else Verdict.NO
    return Prediction(weights_gib=weights / setup.gpus / GIB, verdict=verdict, note=answer.get("note"))
