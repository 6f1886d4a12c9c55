"""The manifest of a PlacementProposal: everything that somebody needs to decide about one change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.decisions.outcomes import Rejection, Split
from plimsoll.domain.decisions.proposals import Change as OthersChange
from plimsoll.domain.decisions.proposals import Proposal
from plimsoll.domain.kubernetes_names import API_VERSION, GROUP, KIND, PROPOSAL_KIND, ObjectKey
from plimsoll.domain.requests.workload import Manifest
from plimsoll.domain.units import counted, format_price, to_rfc3339
from plimsoll.engines.registry import engine_of
from plimsoll.placement.demands.failed_moves import settings_words
from plimsoll.placement.demands.pools import Decision, PlannedPool
from plimsoll.placement.explain import place_words
from plimsoll.placement.options.feasibility import hourly_price
from plimsoll.rebalance.inbox import LIFE_SECONDS, Standing, targets
from plimsoll.rebalance.state.decisions import AddReplica, LoopDecision, Move, RemoveReplica, ReplaceReplica, Retune
from plimsoll.rebalance.why import sentence
from plimsoll.render.names import CAPACITY_WORDS, deployment_labels, stages
from plimsoll.render.proposal_words import proposal_sentence

STATE_LABEL = f"{GROUP}/state"

MOST_ENTRIES = 16
"""The most entries of each list of a proposal, as the API has it."""

LONGEST_STARTUP = 86_400
"""The longest start-up that a proposal shows, in seconds, as the API has it: a day."""

LONGEST_SUMMARY, LONGEST_TEXT, LONGEST_MESSAGE = 512, 1024, 4096


@dataclass(frozen=True, slots=True)
class Owner:
    """The InferenceDeployment that a proposal is about."""

    key: ObjectKey
    uid: str
    generation: int


@dataclass(frozen=True, slots=True)
class Found:
    """A change that can be approved: its id, the live loop's decision, and what runs before and after it.

    ``startup_seconds`` is the longest start-up of a replica that was seen; None: none was.
    """

    id: str
    decision: LoopDecision
    before: Decision
    after: Decision
    proposal: Proposal | None = None
    startup_seconds: float | None = None


def proposal_name(deployment: str, proposal: str) -> str:
    """Return the name of a proposal."""
    return f"{deployment}-{proposal}"


def placement_proposal(owner: Owner, found: Found, fleet: Fleet, now: float) -> Manifest:
    """Return the manifest of a new proposal. ``now`` is in POSIX seconds."""
    now_runs, then_runs = targets(found.before), targets(found.after)
    bills = _bill(now_runs, fleet), _bill(then_runs, fleet)
    content = {
        "deployment": owner.key.name,
        "id": found.id,
        "generation": owner.generation,
        "change": type(found.decision).__name__,
        "summary": f"{_title(found.decision, now_runs, then_runs)}, {_price_words(*bills)}"[:LONGEST_SUMMARY],
        "reason": found.decision.reason.value,
        "message": _message(found, owner.key.namespace)[:LONGEST_MESSAGE],
        "figures": [{"name": name, "value": str(value)[:LONGEST_TEXT]} for name, value in _figures(found)],
        "from": [_place(pool) for pool in now_runs],
        "to": [_place(pool) for pool in then_runs],
        "bill": _bills(*bills),
        "gpus": _gpus(now_runs, then_runs, fleet),
        "startupSeconds": _startup(found),
        "latency": _given(before=_speed(now_runs), after=_speed(then_runs)),
        "touches": _touches(found.proposal, owner.key.namespace),
        "alternatives": _alternatives(found.after.rejections),
        "createdAt": to_rfc3339(now),
        "expiresAt": to_rfc3339(now + LIFE_SECONDS),
    }
    return _head(owner, found.id, Standing.OPEN) | {name: _cut(value) for name, value in content.items() if value}


def in_state(body: Manifest, state: Standing) -> Manifest:
    """Return the manifest of a proposal that stands, in another state. Its content stays as it is."""
    head = body["metadata"]
    kept = {name: head[name] for name in ("name", "namespace", "ownerReferences")}
    labels = deployment_labels(body["deployment"]) | {STATE_LABEL: state.value}
    return {**body, "metadata": kept | {"labels": labels}}


def _head(owner: Owner, proposal: str, state: Standing) -> Manifest:
    reference = {"apiVersion": API_VERSION, "kind": KIND, "name": owner.key.name, "uid": owner.uid}
    return {
        "apiVersion": API_VERSION,
        "kind": PROPOSAL_KIND,
        "metadata": {
            "name": proposal_name(owner.key.name, proposal),
            "namespace": owner.key.namespace,
            "labels": deployment_labels(owner.key.name) | {STATE_LABEL: state.value},
            "ownerReferences": [reference | {"controller": True, "blockOwnerDeletion": True}],
        },
    }


def _cut(value: Any) -> Any:
    return value[:MOST_ENTRIES] if isinstance(value, list) else value


def _given(**parts: Any) -> dict[str, Any]:
    """Return the parts that are known."""
    return {name: value for name, value in parts.items() if value not in (None, "", {})}


def _message(found: Found, namespace: str) -> str:
    """Return the reason, and what others would have to do first."""
    why, proposal = sentence(found.decision), found.proposal
    if proposal is None or not proposal.changes:
        return why
    return f"{why} No GPUs are free for it: {proposal_sentence(proposal, namespace)}"


def _figures(found: Found) -> Iterator[tuple[str, int | str]]:
    """Yield the figures of what others would have to do, and those of the reason."""
    if found.proposal is not None and found.proposal.changes:
        yield from found.proposal.numbers
    yield from found.decision.numbers


def _title(decision: LoopDecision, before: Iterable[PlannedPool], after: Iterable[PlannedPool]) -> str:
    """Return what a proposal changes, as somebody would say it: ``add 1 replica on l4-24gb x 1``."""
    now, then = _replicas_by_place(before), _replicas_by_place(after)
    match decision:
        case AddReplica(count=count):
            return f"add {counted(count, 'replica')} on {_and(then - now)}"
        case RemoveReplica(count=count):
            return f"remove {counted(count, 'replica')} on {_and(now - then)}"
        case Retune(limits=limits):
            return f"set {settings_words(limits)} on {_and(then)}"
        case ReplaceReplica(pod=pod):
            return f"replace pod {pod} by a new one on {_and(then)}"
        case _:
            moved = then - now or then
            engine = f"{engine_of(decision.engine).title} on " if isinstance(decision, Move) and decision.engine else ""
            return f"move {counted(moved.total(), 'replica')} to {engine}{_and(moved)}"


def _replicas_by_place(pools: Iterable[PlannedPool]) -> Counter[str]:
    found: Counter[str] = Counter()
    for pool in pools:
        found[place_words(pool.gpu_type, pool.split)] += pool.replicas
    return found


def _and(places: Iterable[str]) -> str:
    return " and ".join(places) or "no GPU"


def _price_words(before: Decimal | None, after: Decimal | None) -> str:
    """Return the difference of the bill, with its sign."""
    if before is None or after is None:
        return "price unknown"
    change = after - before
    return f"{'+' if change > 0 else '-'}${format_price(abs(change))}/h" if change else "same price"


def _place(pool: PlannedPool) -> dict[str, Any]:
    capacity = pool.target.capacity
    return {
        **_cut_of(pool.gpu_type, pool.split),
        "replicas": pool.replicas,
        **_given(capacityType=None if capacity is None else CAPACITY_WORDS[capacity], settings=_settings(pool)),
    }


def _settings(pool: PlannedPool) -> dict[str, Any]:
    kv_dtype = None if pool.choice is None else pool.choice.settings.kv_cache_dtype
    return _given(maxNumSeqs=pool.sequences, maxNumBatchedTokens=pool.step_tokens, kvCacheDtype=kv_dtype)


def _bill(pools: Sequence[PlannedPool], fleet: Fleet) -> Decimal | None:
    """Return US dollars per hour of all replicas; None where a GPU type has no price."""
    prices = [_price(pool, fleet) for pool in pools]
    known = [price * pool.replicas for price, pool in zip(prices, pools, strict=True) if price is not None]
    return sum(known, Decimal(0)) if len(known) == len(pools) else None


def _price(pool: PlannedPool, fleet: Fleet) -> Decimal | None:
    if pool.choice is not None:
        return pool.choice.hourly_price
    gpu = fleet.named(pool.gpu_type)
    return None if gpu is None else hourly_price(gpu, pool.split)


def _bills(before: Decimal | None, after: Decimal | None) -> dict[str, str]:
    shown = {name: format_price(price) for name, price in (("before", before), ("after", after)) if price is not None}
    return shown | {"summary": f"{shown.get('before', 'unknown')} -> {shown.get('after', 'unknown')}"}


def _gpus(before: Sequence[PlannedPool], after: Sequence[PlannedPool], fleet: Fleet) -> list[dict[str, Any]]:
    """Return the GPUs of all replicas before and after the change, by type, and how many of the type are free now."""
    held = _held(before), _held(after)
    return [
        {
            "gpuType": gpu_type,
            "before": held[0][gpu_type],
            "after": held[1][gpu_type],
            "free": sum(node.free for node in fleet.of_type(gpu_type)),
        }
        for gpu_type in sorted({*held[0], *held[1]})
    ]


def _held(pools: Iterable[PlannedPool]) -> Counter[str]:
    found: Counter[str] = Counter()
    for pool in pools:
        found[pool.gpu_type] += pool.replicas * pool.split.gpus
    return found


def _startup(found: Found) -> int | None:
    """Return the seconds of a start-up; None where none was seen, or where replicas only leave."""
    if found.startup_seconds is None or isinstance(found.decision, RemoveReplica):
        return None
    return min(LONGEST_STARTUP, round(found.startup_seconds))


def _speed(pools: Sequence[PlannedPool]) -> dict[str, int]:
    """Return the latency of the slowest of the pools; empty where it is not known of all of them."""
    known = [pool.choice.performance for pool in pools if pool.choice and pool.choice.performance]
    if not known or len(known) < len(pools):
        return {}
    return {
        "ttftMilliseconds": round(1000 * max(each.typical_ttft_seconds for each in known)),
        "tpotMilliseconds": round(1000 * max(each.tpot_seconds for each in known)),
    }


def _touches(proposal: Proposal | None, namespace: str) -> list[dict[str, Any]]:
    return [] if proposal is None else [_touch(change, namespace) for change in proposal.changes]


def _touch(change: OthersChange, namespace: str) -> dict[str, Any]:
    """Return one change of another deployment. Its name is shown in its own namespace only."""
    action = f"leaves node {change.node} for good" if change.to is None else f"moves from {change.node} to {change.to}"
    return {
        "deployment": change.owner.name if change.owner.namespace == namespace else "another deployment",
        "gpuType": change.leaving.target.gpu_type,
        "replicas": change.leaving.replicas,
        "action": action,
    }


def _alternatives(rejections: Iterable[Rejection]) -> list[dict[str, Any]]:
    return [_cut_of(each.gpu_type, each.split) | {"reason": each.reason.value} for each in rejections]


def _cut_of(gpu_type: str, split: Split) -> dict[str, Any]:
    return {"gpuType": gpu_type, "tensorParallel": split.tensor_parallel, **stages(split)}
