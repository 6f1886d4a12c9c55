"""A simulation as text: the summary first, then its input, its events and a table of moments.

A simulation as a document: its input, its summary, and its figures. Absent figures are null, never 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from plimsoll import __version__
from plimsoll.simulation.result import Moment, SimulationResult, Spread, clock, evenly
from plimsoll.simulation.run import SimulationRun
from plimsoll.simulation.workload import Workload

MOST_ROWS = 13
_MILLISECONDS = 1000


def print_simulation(console: Console, simulation_run: SimulationRun, result: SimulationResult) -> None:
    """Print it."""
    for line in (result.summary, "", *input_lines(simulation_run), ""):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    for event in result.events:
        console.print(f"{clock(event.at)}  {event.sentence}", highlight=False, markup=False, soft_wrap=True)
    console.print(_table(result.moments))
    console.print(totals_line(result), highlight=False, markup=False, soft_wrap=True)


def input_lines(simulation_run: SimulationRun) -> Iterator[str]:
    """Yield the input as it was simulated."""
    kind, policy = simulation_run.kind, simulation_run.policy
    split, gpu = kind.place.split, kind.place.gpu.name
    yield (
        f"Replica: {kind.request.model.name} on {split.gpus} x {gpu}, {kind.limits.kv_tokens:,} KV tokens, "
        f"{kind.limits.max_num_seqs:,} sequence slots, steps of {kind.limits.max_batched_tokens:,} tokens, "
        f"context {kind.place.settings.max_model_len:,}."
    )
    yield f"Requests: {workload_words(simulation_run.workload)}."
    yield (
        f"Policy: {policy.mode.value}, {policy.min_replicas} to {policy.max_replicas} replicas, "
        f"{simulation_run.replicas} at the beginning, {simulation_run.startup_seconds:g} s to start one; "
        f"clients wait {simulation_run.patience_seconds:g} s for a first token."
    )


def workload_words(workload: Workload) -> str:
    """Return the requests in words."""
    burst = ""
    if workload.burst_factor > 1:
        burst = (
            f", {workload.burst_factor:g} times as many for {workload.burst_seconds:g} s every "
            f"{workload.burst_every_seconds:g} s"
        )
    shared = f", {workload.shared_prefix_tokens:,} of them shared" if workload.shared_prefix_tokens else ""
    return (
        f"{workload.requests_per_second:g} a second{burst}; prompts of {workload.prompt_tokens:,} tokens{shared}, "
        f"answers of {workload.output_tokens:,}, spread {workload.spread:g}; {workload.minutes:g} min"
    )


def totals_line(result: SimulationResult) -> str:
    """Return what became of all requests."""
    totals = result.totals
    return (
        f"{totals.arrived:,} requests: {totals.served:,} served, {totals.gave_up:,} gave up, {totals.lost:,} lost, "
        f"{totals.under_way:,} under way at the end; {totals.preemptions:,} preemptions; first token "
        f"{times(totals.ttft)}, later tokens {times(totals.tpot)} (median, 95th percentile)."
    )


def times(spread: Spread | None) -> str:
    """Return both times in milliseconds."""
    if spread is None:
        return "unknown"
    return f"{spread.median * _MILLISECONDS:,.0f} / {spread.p95 * _MILLISECONDS:,.0f} ms"


def _table(moments: Sequence[Moment]) -> Table:
    table = Table()
    for name in ("time", "KV in use", "KV tokens", "slots", "waiting", "replicas (wanted)", "TTFT", "TPOT"):
        table.add_column(name, justify="right")
    for each in evenly(moments, MOST_ROWS):
        table.add_row(
            clock(each.at),
            f"{each.kv_cache_in_use:.0%}",
            f"{each.held_tokens:,} / {each.hold_tokens:,}",
            f"{each.running:,} / {each.sequence_slots:,}",
            f"{each.waiting:,}",
            f"{each.ready:,} ({each.wanted:,})",
            times(each.ttft),
            times(each.tpot),
        )
    return table


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
        "kv_cache_in_use": round(moment.kv_cache_in_use, _SHARE_DIGITS),
        "fullest": round(moment.fullest, _SHARE_DIGITS),
        "ttft_seconds": _spread(moment.ttft),
        "tpot_seconds": _spread(moment.tpot),
    }


def _spread(spread: Spread | None) -> dict[str, float] | None:
    if spread is None:
        return None
    return {"median": round(spread.median, _SECOND_DIGITS), "p95": round(spread.p95, _SECOND_DIGITS)}
