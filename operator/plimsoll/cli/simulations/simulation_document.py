"""A simulation as a document: its input, its summary, and its figures. Absent figures are null, never 0."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from plimsoll import __version__
from plimsoll.simulation.result import Moment, SimulationResult, Spread
from plimsoll.simulation.run import SimulationRun

_SHARE_DIGITS = 4
_SECOND_DIGITS = 4


def simulation_document(simulation_run: SimulationRun, result: SimulationResult) -> dict[str, Any]:
    """Return the document. Times are in seconds since the beginning."""
    totals = result.totals
    return {
        "summary": result.summary,
        "release": __version__,
        "input": input_document(simulation_run),
        "totals": {
            **{name: value for name, value in asdict(totals).items() if name not in ("ttft", "tpot")},
            "replica_seconds": round(totals.replica_seconds),
            "ttft_seconds": _spread(totals.ttft),
            "tpot_seconds": _spread(totals.tpot),
        },
        "events": [{**asdict(each), "kind": each.kind.value} for each in result.events],
        "moments": [_moment(each) for each in result.moments],
    }


def input_document(simulation_run: SimulationRun) -> dict[str, Any]:
    """Return the input as it was simulated, defaults and the figures of the estimate included."""
    place, limits, policy = simulation_run.kind.place, simulation_run.kind.limits, simulation_run.policy
    return {
        "model": simulation_run.kind.request.model.name,
        "gpu": place.gpu.name,
        "gpus_per_replica": place.split.gpus,
        "context_tokens": place.settings.max_model_len,
        "kv_tokens": limits.kv_tokens,
        "weights_bytes_per_gpu": place.figures.weights_bytes,
        "kv_bytes_per_token_and_gpu": place.figures.kv_bytes_per_token,
        "max_num_seqs": limits.max_num_seqs,
        "max_batched_tokens": limits.max_batched_tokens,
        "workload": asdict(simulation_run.workload),
        "replicas": simulation_run.replicas,
        "min_replicas": policy.min_replicas,
        "max_replicas": policy.max_replicas,
        "mode": policy.mode.value,
        "window_seconds": policy.window_seconds,
        "cooldown_seconds": policy.cooldown_seconds,
        "startup_seconds": simulation_run.startup_seconds,
        "patience_seconds": simulation_run.patience_seconds,
        "scrape_seconds": simulation_run.scrape_seconds,
        "seed": simulation_run.seed,
    }


def _moment(moment: Moment) -> dict[str, Any]:
    figures = {name: value for name, value in asdict(moment).items() if name not in ("ttft", "tpot", "fullest")}
    return {
        **figures,
        "hold": round(moment.kv_cache_in_use, _SHARE_DIGITS),
        "fullest": round(moment.fullest, _SHARE_DIGITS),
        "ttft_seconds": _spread(moment.ttft),
        "tpot_seconds": _spread(moment.tpot),
    }


def _spread(spread: Spread | None) -> dict[str, float] | None:
    if spread is None:
        return None
    return {"median": round(spread.median, _SECOND_DIGITS), "p95": round(spread.p95, _SECOND_DIGITS)}
