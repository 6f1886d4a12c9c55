"""``plimsoll explain``: the story of one InferenceDeployment, from its status."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console

from plimsoll.api.v1alpha1 import PoolStatus
from plimsoll.api.v1alpha1.status import (
    Condition,
    DecisionStatus,
    FailedMoveStatus,
    HostCacheStatus,
    ObservationStatus,
    RebalancingStatus,
    RejectedProposalStatus,
    TooSmallStatus,
)
from plimsoll.cli.plans.tables import print_details
from plimsoll.cli.screen import print_lines
from plimsoll.domain.engines.engine_choice import DEFAULT_ENGINE
from plimsoll.domain.units import GIB
from plimsoll.placement.demands.failed_moves import settings_words
from plimsoll.placement.explain import place_words
from plimsoll.rebalance.law.learning import CapacityReading, error_percent_text
from plimsoll.status.record.places import LIMITS, split_of
from plimsoll.status.record.reading import record_of, whole_status
from plimsoll.status.severity import state_at
from plimsoll.status.signs import signs_of
from plimsoll.status.words.engines import title_of
from plimsoll.status.words.placed import found_words, host_error_words
from plimsoll.status.writing import document_of


def print_story(console: Console, body: Mapping[str, Any], now: float) -> None:
    """Print the state, conditions, estimate, rejections, pools, the engines' reports and the live loop's decision.

    ``now`` is in POSIX seconds.
    """
    record = record_of(body)
    status = whole_status(record)
    if status.observed_generation != body["metadata"].get("generation"):
        print_lines(console, (_OLD,), "yellow")
    print_lines(console, (f"Warning: {complaint}" for complaint in record.complaints), "yellow")
    judged = state_at(signs_of(status, body["metadata"]), now)
    print_lines(console, (f"State: {judged.state} ({judged.severity.name.lower()}).",))
    print_lines(console, () if judged.known is None else (f"{judged.known.words()}.",), "bold")
    print_lines(console, _conditions(status.conditions or ()))
    print_details(console, status, in_full=True)
    host = None if status.placement is None else status.placement.host
    kept = None if host is None else host.cache
    print_lines(console, (_pool(each, kept) for each in status.pools or ()))
    print_lines(console, map(_decided, status.decisions or ()))
    print_lines(console, (f"Proposal ({each.reason}): {each.message}" for each in status.proposals or ()))
    print_lines(console, (f"Observed: {_observed(seen)}." for seen in status.observations or ()))
    print_lines(console, map(_proved_small, status.too_small or ()))
    print_lines(console, map(_taken_back, status.failed_moves or ()))
    if status.rebalancing is not None:
        _print_live(console, status.rebalancing, body["metadata"])


def story_document(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same as data: the object's name, whether the operator has seen it as it is, and its status."""
    record, head = record_of(body), body["metadata"]
    status = whole_status(record)
    return {
        "namespace": head.get("namespace"),
        "name": head.get("name"),
        "upToDate": status.observed_generation == head.get("generation"),
        "warnings": list(record.complaints),
        "status": document_of(status),
    }


_OLD = "The operator has not seen the last change yet; this is the state before it."


def _conditions(conditions: Sequence[Condition]) -> Iterator[str]:
    """Yield each sentence once, after all conditions that say it."""
    found: dict[tuple[str, str], list[str]] = {}
    for each in conditions:
        found.setdefault((each.reason, each.message), []).append(f"{each.type}={each.status}")
    yield from (f"{' '.join(names)} {reason}: {message}" for (reason, message), names in found.items())


def _pool(pool: PoolStatus, host: HostCacheStatus | None) -> str:
    """Describe a pool. ``host`` is the estimate of the placement for a cache in host memory; None: there is none."""
    learned = _learned(pool, host if pool.state == "Active" else None)
    return f"Pool {pool.name}: {pool.ready_replicas}/{pool.replicas} replicas, {pool.state}{learned}."


def _proved_small(small: TooSmallStatus) -> str:
    place = f"{small.gpu_type} x {small.tensor_parallel}{_engines(small.data_parallel)}"
    return f"Proved too small: {place}, its engine got {small.kv_tokens} KV tokens."


def _print_live(console: Console, live: RebalancingStatus, head: Mapping[str, Any]) -> None:
    print_lines(console, (f"Rebalancing: {live.decision} ({live.reason}). {live.message}",))
    if live.proposal:
        print_lines(console, (f"Proposal: {live.proposal}",), "bold")
    if live.proposal_id:
        words = f"plimsoll approve {head['name']} -n {head['namespace']} --proposal {live.proposal_id}"
        print_lines(console, (f"Approve it: {words}",))
    print_lines(console, (f"Note: {hint}" for hint in live.hints or ()))
    print_lines(console, map(_rejected, live.rejected or ()))


def _rejected(refusal: RejectedProposalStatus) -> str:
    why = f": {refusal.reason}" if refusal.reason else ""
    return f"Rejected by {refusal.by} until {refusal.until}: proposal {refusal.proposal}{why}"


def _decided(entry: DecisionStatus) -> str:
    before = "" if entry.replaced is None else f" instead of {entry.replaced}"
    words = found_words(entry.solver, entry.gap_permille)
    found = f" ({words})" if words else ""
    return f"Decision {entry.id} at {entry.at}: {entry.placed or 'no replicas'}{before}{found}."


def _observed(seen: ObservationStatus) -> str:
    stages = "" if seen.pipeline_parallel is None else f" x {seen.pipeline_parallel} stages"
    cut = f"{seen.tensor_parallel}{stages}{_engines(seen.data_parallel)}"
    place = f"{seen.model} on {seen.gpu_type} x {cut}, {title_of(seen.engine or DEFAULT_ENGINE)} {seen.engine_version}"
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


def _learned(pool: PoolStatus, host: HostCacheStatus | None) -> str:
    reported, predicted, in_host = pool.kv_tokens_reported, pool.kv_tokens_predicted, pool.host_tokens_reported
    there = "" if in_host is None else f", and {in_host} in host memory{host_error_words(host, in_host)}"
    if reported is None:
        return f"{'' if pool.kv_tokens_note is None else ', engine reports no size of its KV cache'}{there}"
    error = None if predicted is None else CapacityReading(predicted, reported).error_permille
    difference = "" if error is None else f" (estimate {error_percent_text(error)})"
    return f", engine reports {reported} KV tokens{difference}{there}"
