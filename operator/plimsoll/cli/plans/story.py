"""``plimsoll explain``: the story of one InferenceDeployment, from its status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from plimsoll.api.v1alpha1 import PoolStatus
from plimsoll.api.v1alpha1.status import DecisionStatus, FailedMoveStatus, ObservationStatus, RebalancingStatus
from plimsoll.cli.plans.tables import print_details
from plimsoll.cli.screen import print_lines
from plimsoll.domain.units import GIB
from plimsoll.placement.demands.failed_moves import settings_words
from plimsoll.placement.explain import place_words
from plimsoll.rebalance.law.learning import CapacityReading, error_percent_text
from plimsoll.status.found_words import found_words
from plimsoll.status.places import LIMITS, split_of
from plimsoll.status.reading import record_of, whole_status


def print_story(console: Console, body: Mapping[str, Any]) -> None:
    """Print conditions, estimate, rejections, pools, the engines' reports and the live loop's decision."""
    record = record_of(body)
    status = whole_status(record)
    if status.observed_generation != body["metadata"].get("generation"):
        console.print("The operator has not seen the last change yet; this is the state before it.", style="yellow")
    for complaint in record.complaints:
        console.print(f"Warning: {complaint}", highlight=False, markup=False, style="yellow")
    for condition in status.conditions or ():
        console.print(f"{condition.type}={condition.status} {condition.reason}: {condition.message}")
    print_details(console, status)
    for pool in status.pools or ():
        serving = f"{pool.ready_replicas}/{pool.replicas} replicas, {pool.state}"
        console.print(f"Pool {pool.name}: {serving}{_learned(pool)}.", highlight=False)
    print_lines(console, map(_decided, status.decisions or ()))
    print_lines(console, (f"Proposal ({each.reason}): {each.message}" for each in status.proposals or ()))
    for seen in status.observations or ():
        console.print(f"Observed: {_observed(seen)}.", highlight=False)
    for small in status.too_small or ():
        place = f"{small.gpu_type} x {small.tensor_parallel}{_engines(small.data_parallel)}"
        console.print(f"Proved too small: {place}, its engine got {small.kv_tokens} KV tokens.", highlight=False)
    print_lines(console, map(_taken_back, status.failed_moves or ()))
    if status.rebalancing is not None:
        _print_live(console, status.rebalancing, body["metadata"])


def _print_live(console: Console, live: RebalancingStatus, head: Mapping[str, Any]) -> None:
    console.print(f"Rebalancing: {live.decision} ({live.reason}). {live.message}", highlight=False)
    if live.proposal:
        console.print(f"Proposal: {live.proposal}", highlight=False, style="bold")
    if live.proposal_id:
        words = f"plimsoll approve {head['name']} -n {head['namespace']} --proposal {live.proposal_id}"
        console.print(f"Approve it: {words}", highlight=False, markup=False)
    for refusal in live.rejected or ():
        why = f": {refusal.reason}" if refusal.reason else ""
        line = f"Rejected by {refusal.by} until {refusal.until}: proposal {refusal.proposal}{why}"
        console.print(line, highlight=False, markup=False)


def _decided(entry: DecisionStatus) -> str:
    before = "" if entry.replaced is None else f" instead of {entry.replaced}"
    words = found_words(entry.solver, entry.gap_permille)
    found = f" ({words})" if words else ""
    return f"Decision {entry.id} at {entry.at}: {entry.placed or 'no replicas'}{before}{found}."


def _observed(seen: ObservationStatus) -> str:
    stages = "" if seen.pipeline_parallel is None else f" x {seen.pipeline_parallel} stages"
    cut = f"{seen.tensor_parallel}{stages}{_engines(seen.data_parallel)}"
    place = f"{seen.model} on {seen.gpu_type} x {cut}, vLLM {seen.engine_version}"
    predicted = f"{seen.predicted_kv_bytes / GIB:.2f} GiB predicted"
    got = seen.available_kv_bytes
    outcome = "ran out of memory" if got is None else f"{got / GIB:.2f} GiB for its KV cache"
    return f"{place}: {outcome}, {predicted} ({seen.witness})"


def _taken_back(failed: FailedMoveStatus) -> str:
    """A move or a change of settings that did not come up in time, and until when it is refused."""
    why = f"{failed.reason}: {failed.message}" if failed.message else failed.reason
    often = "" if failed.times == 1 else f", {failed.times} times so far"
    where = place_words(failed.gpu_type, split_of(failed))
    limits = LIMITS.read(failed)
    if limits.sequences:
        what = f"{settings_words(limits)} on {where}"
        return f"Taken back: {what} at {failed.at}{often} ({why}). It is not changed there before {failed.until}."
    return f"Taken back: a move to {where} at {failed.at}{often} ({why}). It is refused until {failed.until}."


def _engines(count: int | None) -> str:
    return "" if count is None else f" x {count} engines"


def _learned(pool: PoolStatus) -> str:
    reported, predicted = pool.kv_tokens_reported, pool.kv_tokens_predicted
    if reported is None:
        return "" if pool.kv_tokens_note is None else ", engine reports no size of its KV cache"
    error = None if predicted is None else CapacityReading(predicted, reported).error_permille
    difference = "" if error is None else f" (estimate {error_percent_text(error)})"
    return f", engine reports {reported} KV tokens{difference}"
